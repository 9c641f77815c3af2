//! A Redis of our own that syncs every write.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::stopwatch::Stopwatch;

/// How long Redis may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis server, killed on drop.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
}

impl Redis {
    /// Starts Redis with its files in a folder; `None` if Redis is not installed.
    pub(crate) fn start(folder: &Path) -> Result<Option<Self>> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let started = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--save", ""])
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match started {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            child => child.context("start redis-server")?,
        };
        let redis = Self { child, port };
        let watch = Stopwatch::start();
        while redis.connect().is_err() {
            ensure!(watch.elapsed() < PATIENCE, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    /// A connection.
    pub(crate) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
