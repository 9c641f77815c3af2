//! Connections that show no key, or want too much.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

pub(crate) mod app_server;
pub(crate) mod attacks;
pub(crate) mod good;
pub(crate) mod http2;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::connection::{Close, Open};
use steadfast_wire::amqp::delivery::Transfer;
use steadfast_wire::amqp::frame::{self, Kind, ProtocolHeader};
use steadfast_wire::amqp::link::{self, Attach, LinkRole};
use steadfast_wire::amqp::performative::Performative;
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::session::Begin;
use steadfast_wire::amqp::write;

use crate::running::{PATIENCE, Server, Start, settle, steadfast};

pub(crate) const MIB: u64 = 1024 * 1024;

/// Resident bytes of a server.
pub(crate) fn resident(server: &Server) -> u64 {
    shown(server, "VmRSS:")
}

/// A line of a server's status as the kernel shows it, in bytes.
pub(crate) fn shown(server: &Server, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field));
    let kb = line.unwrap().split_whitespace().nth(1).unwrap();
    kb.parse::<u64>().unwrap() * 1024
}

/// Takes as many file descriptors as the system allows.
pub(crate) fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).unwrap();
    limit.maximum.unwrap_or(100_000)
}

/// `steadfast dev` with so much address space, in KiB.
pub(crate) fn within(address_space: u64) -> Server {
    let mut start = Start::new("dev");
    let program = start.command.get_program().to_owned();
    let arguments: Vec<_> = start.command.get_args().map(ToOwned::to_owned).collect();
    let mut command = steadfast(start.folder.path());
    std::mem::swap(&mut start.command, &mut command);
    let mut shell = std::process::Command::new("sh");
    let limit = format!("ulimit -v {address_space}; exec \"$0\" \"$@\"");
    shell.args(["-c", &limit]).arg(program).args(arguments);
    settle(&mut shell, start.folder.path());
    start.command = shell;
    start.ready()
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection from one of eight addresses.
pub(crate) fn connect_from(number: usize, port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let own: SocketAddr = ([127, 0, 1, (number % 8) as u8 + 1], 0).into();
    socket.bind(&own.into()).unwrap();
    let to: SocketAddr = ([127, 0, 0, 1], port).into();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What a client writes, frame by frame.
#[derive(Default)]
pub(crate) struct Script(pub(crate) Vec<u8>);

impl Script {
    /// A greeting without a key, and the open.
    pub(crate) fn anonymous() -> Self {
        Self::greeting("ANONYMOUS", b"")
    }

    /// A greeting with a key, and the open.
    pub(crate) fn plain(name: &str, secret: &str) -> Self {
        Self::greeting("PLAIN", format!("\0{name}\0{secret}").as_bytes())
    }

    fn greeting(mechanism: &str, response: &[u8]) -> Self {
        let mut out = ProtocolHeader::Sasl.header().to_vec();
        let init = sasl::SaslInit {
            mechanism,
            response,
        };
        frame::put(&mut out, Kind::Sasl, 0, |out| sasl::write_init(out, &init));
        out.extend(ProtocolHeader::Amqp.header());
        let mut script = Self(out);
        let open = Open {
            container: "stranger",
            host: Some("localhost"),
            max_frame: Some(65_536),
            channel_max: None,
            idle_ms: None,
            properties: EncodedValue::NULL,
        };
        script.put(0, &Performative::Open(open), &[]);
        script
    }

    fn put(&mut self, channel: u16, performative: &Performative<'_>, payload: &[u8]) {
        frame::put(&mut self.0, Kind::Amqp, channel, |out| {
            performative.write(out);
            out.extend_from_slice(payload);
        });
    }

    pub(crate) fn begin(&mut self, channel: u16) {
        let begin = Begin {
            remote_channel: None,
            next_outgoing: 0,
            incoming_window: 65_536,
            outgoing_window: 65_536,
            handle_max: None,
        };
        self.put(channel, &Performative::Begin(begin), &[]);
    }

    /// The end of the connection.
    pub(crate) fn close(&mut self) {
        self.put(0, &Performative::Close(Close { error: None }), &[]);
    }

    /// A link to `$cbs`: requests, or replies at an address of its own.
    pub(crate) fn attach(&mut self, channel: u16, handle: u32, name: &str, role: LinkRole) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        // A long name fits into a frame once.
        let own = &name[..name.len().min(16)];
        let (from, to) = match role {
            LinkRole::Sender => (own, "$cbs"),
            LinkRole::Receiver => ("$cbs", own),
        };
        link::write_source(&mut source, Some(from), EncodedValue::NULL);
        link::write_target(&mut target, Some(to));
        let attach = Attach {
            name,
            handle,
            role,
            snd_settle: None,
            rcv_settle: None,
            source: EncodedValue::new(&source).unwrap(),
            target: EncodedValue::new(&target).unwrap(),
            initial_count: (role == LinkRole::Sender).then_some(0),
            max_message: None,
            offered: EncodedValue::NULL,
            desired: EncodedValue::NULL,
            properties: EncodedValue::NULL,
        };
        self.put(channel, &Performative::Attach(attach), &[]);
    }

    /// A request with a long id, whose reply goes to an address.
    pub(crate) fn request(&mut self, handle: u32, delivery: u32, reply_to: &str, id: &str) {
        let mut message = Vec::new();
        write::descriptor(&mut message, descriptor::PROPERTIES);
        write::list(&mut message, 5, |out| {
            write::string(out, id);
            (0..3).for_each(|_| write::null(out));
            write::string(out, reply_to);
        });
        let transfer = Transfer {
            handle,
            delivery: Some(delivery),
            tag: Some(&delivery.to_be_bytes()),
            format: Some(0),
            settled: Some(true),
            ..Transfer::default()
        };
        self.put(0, &Performative::Transfer(transfer), &message);
    }
}

/// A connection whose answers are read and dropped.
pub(crate) struct Stranger {
    stream: TcpStream,
    reading: std::thread::JoinHandle<Vec<u8>>,
}

impl Stranger {
    pub(crate) fn new(port: u16) -> Self {
        let stream = connect(port);
        let mut answers = stream.try_clone().unwrap();
        let reading = std::thread::Builder::new()
            .spawn(move || {
                let (mut last, mut piece) = (Vec::new(), [0; 16 * 1024]);
                while let Ok(count @ 1..) = answers.read(&mut piece) {
                    last.extend_from_slice(&piece[..count]);
                    last.drain(..last.len().saturating_sub(piece.len()));
                }
                last
            })
            .unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, reading }
    }

    /// Writes bytes; false if the server has hung up.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// What the server said last, once it has hung up.
    pub(crate) fn last_words(self) -> String {
        String::from_utf8_lossy(&self.reading.join().unwrap()).into_owned()
    }
}

/// Writes as much as the server takes: until nothing moves any more, or it hangs up.
pub(crate) fn push(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(count) if count > 0 => sent += count,
            _ => break,
        }
    }
    sent
}

/// Opens a WebSocket; answers once it is open.
pub(crate) fn websocket(port: u16, path: &str, protocol: &str) -> TcpStream {
    let mut stream = connect(port);
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    stream
}

/// The header of a frame that says how long it is.
pub(crate) fn frame_header(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first, 0x80 | 127];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}
