//! Child processes that are killed, frozen and restarted.
//!
//! - A child is reaped only by its `Process`, so its id never belongs to another process.
//! - Its standard output is read at once, so it never blocks on a full pipe; past a bound the
//!   oldest lines are dropped.
//! - It is killed on drop. Its standard input is a pipe of ours: when the test process itself is
//!   killed the pipe closes, and a child that should not outlive it ends at the end of its input.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Lines of output kept for the test to read.
const MAX_LINES: usize = 10_000;

/// The number of received lines that an error shows.
const SHOWN_LINES: usize = 20;

/// A command that runs one test of this test binary in a process of its own.
///
/// `module` is the `module_path!()` of the test. The test has to find out, by a variable of
/// the environment, that it is the child.
///
/// # Panics
///
/// If the path of this process is unknown.
pub fn own_test(module: &str, test: &str) -> Command {
    let program = std::env::current_exe().expect("a test binary has a path");
    let mut command = Command::new(program);
    // libtest names a test by its path without the crate.
    let name = match module.split_once("::") {
        Some((_, path)) => format!("{path}::{test}"),
        None => test.to_owned(),
    };
    command.args(["--exact", &name, "--nocapture"]);
    command
}

/// A running or ended child process and the command to start it again.
pub struct Process {
    command: Command,
    child: Child,
    status: Option<ExitStatus>,
    exited: Receiver<()>,
    output: Arc<ProcessOutput>,
}

impl Process {
    /// Starts a process; its standard input and output are taken over.
    pub fn spawn(mut command: Command) -> anyhow::Result<Process> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (child, exited, output) = start(&mut command)?;
        Ok(Process {
            command,
            child,
            status: None,
            exited,
            output,
        })
    }

    /// Kills the process if it runs and starts it again with the same command.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        (self.child, self.exited, self.output) = start(&mut self.command)?;
        self.status = None;
        Ok(())
    }

    /// The process id, of the last start.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its standard output, without the line end.
    pub fn next_line(&mut self, timeout: Duration) -> anyhow::Result<String> {
        self.wait_for(|_| true, timeout)
    }

    /// The next line of its standard output that fits; those before it are dropped.
    pub fn wait_for(
        &mut self,
        mut fits: impl FnMut(&str) -> bool,
        timeout: Duration,
    ) -> anyhow::Result<String> {
        let deadline = now() + timeout;
        let mut seen = VecDeque::new();
        loop {
            match self.output.next(deadline.saturating_duration_since(now())) {
                Ok(line) if fits(&line) => return Ok(line),
                Ok(line) => seen.push_back(line),
                Err(reason) => bail!("{reason}; last lines: {seen:?}"),
            }
            if seen.len() > SHOWN_LINES {
                seen.pop_front();
            }
        }
    }

    /// Writes a line to its standard input.
    pub fn write_line(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut();
        let input = input.context("the standard input is closed")?;
        writeln!(input, "{line}")?;
        Ok(())
    }

    /// Kills it with SIGKILL and waits until it has ended; without effect on an ended
    /// process.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if self.status.is_none() {
            self.signal(Signal::KILL)?;
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops it with SIGSTOP and waits until it is stopped.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let id = WaitId::Pid(Pid::from_child(&self.child));
        rustix::process::waitid(id, either)?;
        Ok(())
    }

    /// Resumes a frozen process.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self, timeout: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.exited.recv_timeout(timeout) {
            bail!("process {} still runs after {timeout:?}", self.id());
        }
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        if self.status.is_some() {
            bail!("process {} has ended", self.id());
        }
        let id = Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal)
            .with_context(|| format!("send {signal:?} to process {}", self.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that cannot be killed has ended already.
        let _ = self.kill();
    }
}

/// Lines read from a child and not yet taken.
#[derive(Default)]
struct ProcessOutput {
    lines: Mutex<OutputLines>,
    changed: Condvar,
}

#[derive(Default)]
struct OutputLines {
    waiting: VecDeque<String>,
    ended: bool,
}

impl ProcessOutput {
    fn next(&self, timeout: Duration) -> anyhow::Result<String> {
        let empty = |lines: &mut OutputLines| lines.waiting.is_empty() && !lines.ended;
        let (mut lines, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, empty)
            .unwrap_or_else(PoisonError::into_inner);
        match (lines.waiting.pop_front(), lines.ended) {
            (Some(line), _) => Ok(line),
            (None, true) => Err(anyhow!("the output has ended")),
            (None, false) => Err(anyhow!("no such line in time")),
        }
    }

    fn read(&self, stdout: ChildStdout) {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let mut lines = self.lock();
            if lines.waiting.len() == MAX_LINES {
                lines.waiting.pop_front();
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            lines.waiting.push_back(line);
            self.changed.notify_all();
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, OutputLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type StartedProcess = (Child, Receiver<()>, Arc<ProcessOutput>);

fn start(command: &mut Command) -> anyhow::Result<StartedProcess> {
    let mut child = command
        .spawn()
        .with_context(|| format!("start {:?}", command.get_program()))?;
    let stdout = child.stdout.take().context("the output is a pipe")?;
    let output = Arc::new(ProcessOutput::default());
    let lines = output.clone();
    thread::Builder::new()
        .name(format!("output of {}", child.id()))
        .spawn(move || lines.read(stdout))?;
    let exited = watch_exit(&child)?;
    Ok((child, exited, output))
}

/// A channel that closes when the process ends; the process is not reaped.
fn watch_exit(child: &Child) -> anyhow::Result<Receiver<()>> {
    let (running, exited) = mpsc::channel();
    let id = Pid::from_child(child);
    thread::Builder::new()
        .name(format!("exit of {}", child.id()))
        .spawn(move || {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while rustix::process::waitid(WaitId::Pid(id), ended)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
            drop(running);
        })?;
    Ok(exited)
}

#[expect(
    clippy::disallowed_methods,
    reason = "children run in real time, so their deadlines do"
)]
fn now() -> Instant {
    Instant::now()
}
