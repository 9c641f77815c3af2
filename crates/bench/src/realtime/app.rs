//! The child process that is an app server.
//!
//! It shuts down gracefully when its input closes, and reports how many clients were
//! left.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use steadfast_core::clock::SystemClock;
use steadfast_realtime::{HubOptions, ShutdownMode};
use steadfast_signalr::{AppServerRuntime, DialOptions};

use super::hub::{EchoHub, FAR, SECRET};

/// The time limit of its shutdown.
const LIMIT: Duration = Duration::from_secs(60);

/// An app server in a process of its own. It is killed on drop.
pub(super) struct App {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl App {
    pub(super) fn start(executable: &Path, service: SocketAddr, name: &str) -> Result<Self> {
        let child = Command::new(executable)
            .args(["bench", "realtime-app", &service.to_string(), name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = child.context("start an app server")?;
        let output = process.stdout.take().context("it has no output")?;
        let mut app = Self {
            process,
            output: BufReader::new(output),
        };
        ensure!(app.line()? == "READY", "the app server is not ready");
        Ok(app)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Shuts it down and waits for its end; returns how many clients were left.
    pub(super) fn leave(mut self) -> Result<usize> {
        drop(self.process.stdin.take());
        let left = self.line()?;
        self.process.wait()?;
        left.parse().with_context(|| format!("it said {left:?}"))
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Links a hub to a service, reports readiness, and shuts down when its input ends.
pub fn serve(
    service: &str,
    name: &str,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<()> {
    let tasks = tokio::runtime::Runtime::new()?;
    let options = DialOptions {
        address: service.to_owned(),
        is_encrypted: false,
        authorities: None,
        secret: SECRET.to_owned(),
        server: name.to_owned(),
        hub: FAR.to_owned(),
        mode: ShutdownMode::MigrateClients,
        links: 1,
    };
    let dialed = tasks.block_on(async {
        let clock = Arc::new(SystemClock::new());
        let dialed = AppServerRuntime::start(EchoHub, options, HubOptions::default(), clock);
        let dialed = dialed.map_err(anyhow::Error::msg)?;
        dialed.ready().await;
        anyhow::Ok(dialed)
    })?;
    writeln!(output, "READY")?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    let left = tasks.block_on(dialed.shutdown(LIMIT, async {}));
    writeln!(output, "{left}")?;
    output.flush()?;
    Ok(())
}
