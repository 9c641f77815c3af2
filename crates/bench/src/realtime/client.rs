//! A WebSocket client with little overhead.
//!
//! Frames of servers are not parsed: every counted message contains one mark, and marks
//! are counted. Frames to servers are masked with zeros.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Occurs once in every counted message, and in no frame header.
const MARK: &[u8; 3] = b"|!|";

/// The time-out of every operation.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerProtocol {
    SignalR,
    SocketIo,
    Plain,
}

/// A client that is connected.
pub(super) struct BenchClient {
    stream: TcpStream,
    speech: ServerProtocol,
    marks: MarkCounter,
}

/// Counts marks, also those that are split over two reads.
#[derive(Default)]
struct MarkCounter {
    /// The number of bytes of an incomplete mark.
    seen: usize,
}

impl MarkCounter {
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        for byte in bytes {
            self.seen = if *byte == MARK[self.seen] {
                self.seen + 1
            } else {
                usize::from(*byte == MARK[0])
            };
            if self.seen == MARK.len() {
                (count, self.seen) = (count + 1, 0);
            }
        }
        count
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

impl BenchClient {
    /// Connects to this path and performs the handshake.
    pub(super) async fn start(
        address: SocketAddr,
        path: &str,
        speech: ServerProtocol,
    ) -> Result<Self> {
        let stream = tokio::time::timeout(PATIENCE, TcpStream::connect(address));
        let stream = stream.await.context("connecting takes too long")??;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream,
            speech,
            marks: MarkCounter::default(),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        client.stream.write_all(request.as_bytes()).await?;
        let head = client.until(b"\r\n\r\n").await?;
        ensure!(head.starts_with(b"HTTP/1.1 101"), "the server refuses");
        match speech {
            ServerProtocol::SignalR => {
                client
                    .say("{\"protocol\":\"json\",\"version\":1}\u{1e}")
                    .await?;
                client.until(b"{}\x1e").await?;
            }
            ServerProtocol::SocketIo => {
                client.say("40").await?;
                client.until(b"40{").await?;
            }
            ServerProtocol::Plain => {}
        }
        Ok(client)
    }

    /// Reads until these bytes have arrived.
    async fn until(&mut self, end: &[u8]) -> Result<Vec<u8>> {
        let mut seen = Vec::new();
        let reading = async {
            while !seen.windows(end.len()).any(|own| own == end) {
                let mut part = [0; 1024];
                let read = self.stream.read(&mut part).await?;
                ensure!(read > 0, "the server has hung up");
                seen.extend_from_slice(&part[..read]);
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(done) => done.map(|()| seen),
            Err(_) => bail!("the server does not answer"),
        }
    }

    /// Sends a text.
    pub(super) async fn say(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(&frame(text)).await?;
        Ok(())
    }

    /// Sends a ping.
    pub(super) async fn ping(&mut self) -> Result<()> {
        match self.speech {
            ServerProtocol::SignalR => self.say("{\"type\":6}\u{1e}").await,
            ServerProtocol::SocketIo => self.say("3").await,
            ServerProtocol::Plain => Ok(()),
        }
    }

    /// Waits for bytes; returns the number of counted messages among them.
    pub(super) async fn hear(&mut self) -> Result<usize> {
        loop {
            self.stream.readable().await?;
            let read = BUFFER.with_borrow_mut(|buffer| match self.stream.try_read(buffer) {
                Ok(0) => bail!("the server has hung up"),
                Ok(read) => Ok(Some(self.marks.count(&buffer[..read]))),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error.into()),
            });
            if let Some(count) = read? {
                return Ok(count);
            }
        }
    }

    /// Waits until this many counted messages have arrived.
    pub(super) async fn hear_all(&mut self, count: usize) -> Result<()> {
        let mut heard = 0;
        let hearing = async {
            while heard < count {
                heard += self.hear().await?;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(PATIENCE, hearing).await {
            Ok(done) => done?,
            Err(_) => bail!("nothing comes any more"),
        }
        ensure!(heard == count, "{heard} messages instead of {count}");
        Ok(())
    }

    /// Calls `echo` and waits for the response.
    pub(super) async fn echo(&mut self, number: usize) -> Result<()> {
        let text = match self.speech {
            ServerProtocol::SignalR => format!(
                "{{\"type\":1,\"invocationId\":\"{number}\",\"target\":\"echo\",\
                 \"arguments\":[\"|!| hello\"]}}\u{1e}"
            ),
            ServerProtocol::SocketIo => format!("42{number}[\"echo\",\"|!| hello\"]"),
            ServerProtocol::Plain => "|!| hello".to_owned(),
        };
        self.say(&text).await?;
        self.hear_all(1).await
    }

    /// Requests the server to broadcast this many messages to all clients.
    pub(super) async fn flood(&mut self, count: usize) -> Result<()> {
        let text = match self.speech {
            ServerProtocol::SignalR => {
                format!("{{\"type\":1,\"target\":\"flood\",\"arguments\":[{count}]}}\u{1e}")
            }
            ServerProtocol::SocketIo => format!("42[\"flood\",{count}]"),
            ServerProtocol::Plain => format!("flood {count}"),
        };
        self.say(&text).await
    }
}

/// A text frame of a client.
fn frame(text: &str) -> Vec<u8> {
    let mut out = vec![0x81];
    match text.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        long => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(long as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(text.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_however_they_come() {
        let mut marks = MarkCounter::default();
        assert_eq!(marks.count(b"a |!| b ||!| |!"), 2);
        assert_eq!(marks.count(b"| c"), 1);
        assert_eq!(marks.count(b"|! |"), 0);
    }
}
