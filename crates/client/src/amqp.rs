//! A small AMQP client for load, tests and commands.
//!
//! It works frame by frame: its caller counts credit and windows. A pipelining client
//! does not wait for the answers to its handshake and its begins; it sends everything
//! in one write at the next read.

use std::io;

use bytes::{Bytes, BytesMut};
use steadfast_core::limits;
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::connection::Open;
use steadfast_wire::amqp::delivery::Transfer;
use steadfast_wire::amqp::frame::{self, Frame, Kind, ProtocolHeader};
use steadfast_wire::amqp::link::{self, Attach, LinkRole};
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::selector;
use steadfast_wire::amqp::session::{Begin, Flow};
use steadfast_wire::amqp::write;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The session window, in transfers.
pub const WINDOW: u32 = 65_536;

/// A connection to a server.
pub struct AmqpClient<S> {
    stream: S,
    buffer: BytesMut,
    out: Vec<u8>,
    pipeline: Option<Pipeline>,
}

/// Answers that a pipelining client has not received yet.
#[derive(Debug, Default)]
struct Pipeline {
    greets_with_sasl: bool,
    is_greeted: bool,
    /// Sessions whose begin is not answered.
    begun: usize,
}

/// How to read a partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderLinkOptions<'a> {
    /// A selector expression.
    pub start: Option<&'a str>,
    pub epoch: Option<i64>,
    /// A desired capability.
    pub desired: Option<&'a str>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AmqpClient<S> {
    /// Greets the server, with SASL, and opens the connection.
    pub async fn connect(stream: S, init: &sasl::SaslInit<'_>) -> io::Result<Self> {
        let mut client = Self::bare(stream);
        client.out.extend_from_slice(&ProtocolHeader::Sasl.header());
        frame::put(&mut client.out, Kind::Sasl, 0, |out| {
            sasl::write_init(out, init);
        });
        client.flush().await?;
        client.header(ProtocolHeader::Sasl).await?;
        client.next().await?;
        let outcome = client.next().await?;
        if sasl::read_outcome(&outcome.body) != Ok(sasl::OK) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        client.open(None).await?;
        Ok(client)
    }

    /// A connection before its protocol header.
    pub fn bare(stream: S) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            out: Vec::new(),
            pipeline: None,
        }
    }

    /// A connection that buffers its frames until the next read and sends them in one
    /// write: protocol headers, open, begin, attach, flow.
    pub fn pipelined(stream: S, init: &sasl::SaslInit<'_>) -> Self {
        let mut client = Self::bare(stream);
        client.out.extend_from_slice(&ProtocolHeader::Sasl.header());
        frame::put(&mut client.out, Kind::Sasl, 0, |out| {
            sasl::write_init(out, init);
        });
        client.put_open(None);
        client.pipeline = Some(Pipeline {
            greets_with_sasl: true,
            ..Pipeline::default()
        });
        client
    }

    /// Opens the connection, and waits for the answer.
    pub async fn open(&mut self, idle_ms: Option<u32>) -> io::Result<()> {
        self.put_open(idle_ms);
        self.flush().await?;
        self.header(ProtocolHeader::Amqp).await?;
        self.next().await?;
        Ok(())
    }

    fn put_open(&mut self, idle_ms: Option<u32>) {
        self.out.extend_from_slice(&ProtocolHeader::Amqp.header());
        let open = Open {
            container: "client",
            host: Some("localhost"),
            max_frame: Some(limits::AMQP_FRAME_BYTES),
            channel_max: None,
            idle_ms,
            properties: EncodedValue::NULL,
        };
        self.put(0, &Performative::Open(open), &[]);
    }

    /// Appends a frame; [`AmqpClient::flush`] sends it.
    pub fn put(&mut self, channel: u16, performative: &Performative<'_>, payload: &[u8]) {
        frame::put(&mut self.out, Kind::Amqp, channel, |out| {
            performative.write(out);
            out.extend_from_slice(payload);
        });
    }

    /// Appends bytes as they are.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Sends the appended frames; a pipelining client defers this to the next read.
    pub async fn flush(&mut self) -> io::Result<()> {
        match self.pipeline {
            Some(_) => Ok(()),
            None => self.send_all().await,
        }
    }

    /// Sends the appended frames now.
    pub async fn send_all(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        self.stream.flush().await
    }

    /// The next frame that is not a heartbeat.
    pub async fn next(&mut self) -> io::Result<Frame> {
        self.greeted().await?;
        loop {
            let frame = self.next_any().await?;
            if !self.is_awaited(&frame) {
                return Ok(frame);
            }
        }
    }

    async fn next_any(&mut self) -> io::Result<Frame> {
        loop {
            while let Some(frame) = self.take()? {
                if !frame.body.is_empty() {
                    return Ok(frame);
                }
            }
            self.fill().await?;
        }
    }

    /// Sends the buffered frames and reads the answers to the handshake.
    async fn greeted(&mut self) -> io::Result<()> {
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        let is_first = !std::mem::replace(&mut pipeline.is_greeted, true);
        let with_sasl = pipeline.greets_with_sasl;
        if !self.out.is_empty() {
            self.send_all().await?;
        }
        if is_first && with_sasl {
            self.header(ProtocolHeader::Sasl).await?;
            self.next_any().await?;
            let outcome = self.next_any().await?;
            if sasl::read_outcome(&outcome.body) != Ok(sasl::OK) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.header(ProtocolHeader::Amqp).await?;
            self.next_any().await?;
        }
        Ok(())
    }

    /// Whether a frame answers a pipelined begin.
    fn is_awaited(&mut self, frame: &Frame) -> bool {
        let Some(pipeline) = &mut self.pipeline else {
            return false;
        };
        let is_begin = matches!(
            performative::read(&frame.body),
            Ok((Performative::Begin(_), _))
        );
        let is_awaited = is_begin && pipeline.begun > 0;
        pipeline.begun -= usize::from(is_awaited);
        is_awaited
    }

    /// A frame that has arrived already.
    pub fn take(&mut self) -> io::Result<Option<Frame>> {
        frame::take(&mut self.buffer).map_err(io::Error::other)
    }

    /// Reads some bytes.
    pub async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(limits::AMQP_READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn header(&mut self, expected: ProtocolHeader) -> io::Result<()> {
        loop {
            match frame::take_protocol(&mut self.buffer) {
                Ok(Some(protocol)) if protocol == expected => return Ok(()),
                Ok(None) => self.fill().await?,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Begins a session, and waits for the answer.
    pub async fn begin(&mut self, channel: u16) -> io::Result<()> {
        let begin = Begin {
            remote_channel: None,
            next_outgoing: 0,
            incoming_window: WINDOW,
            outgoing_window: WINDOW,
            handle_max: None,
        };
        self.put(channel, &Performative::Begin(begin), &[]);
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.begun += 1;
            return Ok(());
        }
        self.flush().await?;
        self.next().await?;
        Ok(())
    }

    /// Asks for a link to send on.
    pub fn attach_sender(&mut self, channel: u16, handle: u32, name: &str, address: &str) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        link::write_source(&mut source, Some(name), EncodedValue::NULL);
        link::write_target(&mut target, Some(address));
        self.attach(
            channel,
            handle,
            name,
            LinkRole::Sender,
            [&source, &target],
            None,
        );
    }

    /// Asks for a link to read from.
    pub fn attach_reader(
        &mut self,
        channel: u16,
        handle: u32,
        name: &str,
        address: &str,
        reading: &ReaderLinkOptions<'_>,
    ) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        let mut filter = Vec::new();
        if let Some(start) = reading.start {
            write::map(&mut filter, 1, |out| {
                write::symbol(out, selector::NAME);
                write::descriptor(out, descriptor::SELECTOR);
                write::string(out, start);
            });
        }
        link::write_source(&mut source, Some(address), raw(&filter));
        link::write_target(&mut target, Some(name));
        self.attach(
            channel,
            handle,
            name,
            LinkRole::Receiver,
            [&source, &target],
            Some(reading),
        );
    }

    fn attach(
        &mut self,
        channel: u16,
        handle: u32,
        name: &str,
        role: LinkRole,
        [source, target]: [&[u8]; 2],
        reading: Option<&ReaderLinkOptions<'_>>,
    ) {
        let (mut properties, mut desired) = (Vec::new(), Vec::new());
        if let Some(epoch) = reading.and_then(|reading| reading.epoch) {
            write::map(&mut properties, 1, |out| {
                write::symbol(out, "com.microsoft:epoch");
                write::long(out, epoch);
            });
        }
        if let Some(capability) = reading.and_then(|reading| reading.desired) {
            write::array_of_symbols(&mut desired, [capability].into_iter());
        }
        let attach = Attach {
            name,
            handle,
            role,
            snd_settle: Some(0),
            rcv_settle: Some(1),
            source: raw(source),
            target: raw(target),
            initial_count: (role == LinkRole::Sender).then_some(0),
            max_message: None,
            offered: EncodedValue::NULL,
            desired: raw(&desired),
            properties: raw(&properties),
        };
        self.put(channel, &Performative::Attach(attach), &[]);
    }

    /// Grants credit to a link that is read from.
    pub fn grant(&mut self, channel: u16, handle: u32, seen: u32, credit: u32, taken: u32) {
        let flow = Flow {
            next_incoming: Some(1u32.wrapping_add(taken)),
            incoming_window: WINDOW,
            next_outgoing: 0,
            outgoing_window: WINDOW,
            handle: Some(handle),
            delivery_count: Some(seen),
            credit: Some(credit),
            ..Flow::default()
        };
        self.put(channel, &Performative::Flow(flow), &[]);
    }

    /// Appends a message in as many frames as it needs.
    pub fn send(&mut self, channel: u16, handle: u32, delivery: u32, format: u32, message: &[u8]) {
        let pieces = message.chunks(limits::AMQP_FRAME_BYTES as usize - 64);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let transfer = Transfer {
                handle,
                delivery: Some(delivery),
                tag: Some(&delivery.to_be_bytes()),
                format: Some(format),
                settled: Some(false),
                more: index < last,
                aborted: false,
            };
            self.put(channel, &Performative::Transfer(transfer), piece);
        }
    }

    /// Puts a token on its own session; returns the status of the reply.
    pub async fn put_token(
        &mut self,
        channel: u16,
        audience: &str,
        token: &str,
    ) -> io::Result<i64> {
        let kind = "servicebus.windows.net:sastoken";
        self.put_proof(channel, kind, audience, token).await
    }

    /// Puts a token of some kind.
    pub async fn put_proof(
        &mut self,
        channel: u16,
        kind: &str,
        audience: &str,
        token: &str,
    ) -> io::Result<i64> {
        let wishes = [
            ("operation", "put-token"),
            ("type", kind),
            ("name", audience),
        ];
        self.ask(channel, "$cbs", &wishes, Some(token)).await
    }

    /// Sends a request to a node on its own session; returns the status of the reply.
    pub async fn ask(
        &mut self,
        channel: u16,
        node: &str,
        wishes: &[(&str, &str)],
        body: Option<&str>,
    ) -> io::Result<i64> {
        self.begin(channel).await?;
        self.attach_sender(channel, 0, "cbs-out", node);
        self.attach_reader(channel, 1, "cbs-in", node, &ReaderLinkOptions::default());
        self.grant(channel, 1, 0, 10, 0);
        let mut message = Vec::new();
        write_request(&mut message, wishes);
        if let Some(body) = body {
            write::descriptor(&mut message, descriptor::VALUE);
            write::string(&mut message, body);
        }
        self.send(channel, 0, 0, 0, &message);
        self.flush().await?;
        let (mut answer, mut is_taken) = (None, false);
        loop {
            let frame = self.next().await?;
            match performative::read(&frame.body) {
                Ok((Performative::Transfer(_), length)) => answer = status(&frame.body[length..]),
                Ok((Performative::Disposition(_), _)) => is_taken = true,
                _ => {}
            }
            if let (Some(status), true) = (answer, is_taken) {
                return Ok(status);
            }
        }
    }
}

fn raw(bytes: &[u8]) -> EncodedValue<'_> {
    EncodedValue::new(bytes).unwrap_or(EncodedValue::NULL)
}

/// Appends the sections of a request, without a body.
pub fn write_request(out: &mut Vec<u8>, wishes: &[(&str, &str)]) {
    write::descriptor(out, descriptor::PROPERTIES);
    write::list(out, 1, |out| write::ulong(out, 7));
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    write::map(out, wishes.len() as u32, |out| {
        for (name, value) in wishes {
            write::string(out, name);
            write::string(out, value);
        }
    });
}

/// Appends an event: its body as a data section.
pub fn write_event(out: &mut Vec<u8>, body: &[u8]) {
    write::descriptor(out, descriptor::DATA);
    write::binary(out, body);
}

/// The payload of a transfer.
pub fn payload(frame: &Frame) -> Option<Bytes> {
    match performative::read(&frame.body) {
        Ok((Performative::Transfer(_), length)) => Some(frame.body.slice(length..)),
        _ => None,
    }
}

/// The status of a reply.
pub fn status(reply: &[u8]) -> Option<i64> {
    let mut sections = MessageSections::new(reply);
    while let Ok(Some(section)) = sections.next() {
        if section.part == SectionKind::ApplicationProperties {
            let code = section.map().ok()?.find("status-code").ok()?;
            return code.and_then(|code| code.as_i64());
        }
    }
    None
}
