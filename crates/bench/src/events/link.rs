//! A client that sends and reads at full speed.

use std::time::Duration;

use anyhow::{Result, ensure};
use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_wire::amqp::delivery::FORMAT_BATCH;
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::{sasl, write};
use steadfast_wire::sas;
use tokio::net::TcpStream;

use crate::samples::Samples;

/// The key of the measured server.
pub(super) const KEY_NAME: &str = "RootManageSharedAccessKey";
pub(super) const KEY: &str = "SAS_KEY_VALUE";

/// Hub and partitions of the load, and those of the idle receivers.
pub(super) const LOAD_HUB: &str = "load";
pub(super) const LOAD_PARTITIONS: u32 = 4;
pub(super) const IDLE_HUB: &str = "idle";
pub(super) const IDLE_PARTITIONS: u32 = 256;

/// The expiry of all tokens, later than any run.
const EXPIRY: i64 = 4_000_000_000;

/// A connection with one session.
pub(super) async fn connect(port: u16, hub: &str) -> Result<AmqpClient<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let init = sasl::SaslInit {
        mechanism: "ANONYMOUS",
        response: b"",
    };
    let mut client = AmqpClient::connect(stream, &init).await?;
    let audience = format!("sb://localhost/{hub}");
    let token = sas::token(&audience, EXPIRY, KEY_NAME, KEY);
    let status = client.put_token(0, &audience, &token).await?;
    ensure!(status == 202, "the token was answered with {status}");
    client.begin(1).await?;
    Ok(client)
}

/// A batch of this many events of this size, as a message.
pub(super) fn batch(events: u32, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    fastrand::fill(&mut body);
    let mut message = Vec::new();
    for _ in 0..events {
        let mut event = Vec::new();
        steadfast_client::amqp::write_event(&mut event, &body);
        write::descriptor(&mut message, 0x75);
        write::binary(&mut message, &event);
    }
    message
}

/// A link that sends to one partition.
pub(super) struct SenderClient {
    client: AmqpClient<TcpStream>,
    clock: SystemClock,
    started: Vec<Duration>,
    acknowledged: usize,
    taken: Samples,
}

impl SenderClient {
    pub(super) async fn open(port: u16, partition: u32) -> Result<Self> {
        let mut client = connect(port, LOAD_HUB).await?;
        let address = format!("{LOAD_HUB}/Partitions/{partition}");
        client.attach_sender(1, 0, "load", &address);
        client.flush().await?;
        // The answering attach, and credit.
        client.next().await?;
        client.next().await?;
        Ok(Self {
            client,
            clock: SystemClock::new(),
            started: Vec::new(),
            acknowledged: 0,
            taken: Samples::default(),
        })
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Batches that are not acknowledged yet.
    pub(super) fn under_way(&self) -> usize {
        self.started.len() - self.acknowledged
    }

    /// Sends a batch that was due at `when`.
    pub(super) fn send(&mut self, message: &[u8], when: Duration) {
        let delivery = self.started.len() as u32;
        self.started.push(when);
        self.client.send(1, 0, delivery, FORMAT_BATCH, message);
    }

    pub(super) async fn flush(&mut self) -> Result<()> {
        Ok(self.client.flush().await?)
    }

    /// Waits for an acknowledgement; cancel-safe.
    pub(super) async fn take(&mut self) -> Result<()> {
        self.client.fill().await?;
        let now = self.clock.monotonic();
        while let Some(frame) = self.client.take()? {
            let (Performative::Disposition(told), _) = performative::read(&frame.body)? else {
                continue;
            };
            for delivery in told.first..=told.last.unwrap_or(told.first) {
                let started = self.started.get(delivery as usize).copied();
                self.taken.push(now.saturating_sub(started.unwrap_or(now)));
                self.acknowledged += 1;
            }
        }
        Ok(())
    }

    /// Waits until all batches are acknowledged; returns their number and their
    /// latencies.
    pub(super) async fn end(mut self) -> Result<(u64, Samples)> {
        self.flush().await?;
        while self.under_way() > 0 {
            self.take().await?;
        }
        Ok((self.started.len() as u64, self.taken))
    }
}

/// A link that reads one partition from its beginning.
pub(super) struct ReceiverClient {
    client: AmqpClient<TcpStream>,
    seen: u32,
    granted: u32,
}

/// The credit that a receiver grants at a time, in events.
const CREDIT: u32 = 4000;

/// The bytes that mark a frame as a transfer.
const TRANSFER: u8 = 0x14;

impl ReceiverClient {
    pub(super) async fn open(port: u16, hub: &str, partition: u32) -> Result<Self> {
        let mut client = connect(port, hub).await?;
        let address = format!("{hub}/ConsumerGroups/$Default/Partitions/{partition}");
        client.attach_reader(1, 0, "load", &address, &ReaderLinkOptions::default());
        client.flush().await?;
        client.next().await?;
        client.grant(1, 0, 0, CREDIT, 0);
        client.flush().await?;
        Ok(Self {
            client,
            seen: 0,
            granted: CREDIT,
        })
    }

    /// Waits for events; returns their number.
    pub(super) async fn take(&mut self) -> Result<u64> {
        self.client.fill().await?;
        let mut came = 0;
        while let Some(frame) = self.client.take()? {
            came += u32::from(frame.body.get(2) == Some(&TRANSFER));
        }
        self.seen = self.seen.wrapping_add(came);
        if self.granted.wrapping_sub(self.seen) < CREDIT / 2 {
            self.client.grant(1, 0, self.seen, CREDIT, self.seen);
            self.granted = self.seen.wrapping_add(CREDIT);
            self.client.flush().await?;
        }
        Ok(u64::from(came))
    }
}
