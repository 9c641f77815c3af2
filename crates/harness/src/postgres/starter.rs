//! The thread that starts servers.
//!
//! A server ends when the thread that started it does, so that none outlives a
//! killed test process. A test's own thread would end too early for a server that
//! several tests share: this one lives as long as the process.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context;

use crate::process::Process;

type StartRequest = (Command, Sender<anyhow::Result<Process>>);

static STARTER: OnceLock<Sender<StartRequest>> = OnceLock::new();

/// Starts a process that lives until it is dropped or this process ends.
pub(super) fn spawn(command: Command) -> anyhow::Result<Process> {
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = channel::<StartRequest>();
        let run = move || {
            for (command, reply) in inbox {
                // The caller has a deadline of its own.
                let _ = reply.send(Process::spawn(command));
            }
        };
        let thread = thread::Builder::new().name("postgres starter".into());
        thread.spawn(run).expect("a thread can be started");
        orders
    });
    let (reply, answer) = channel();
    starter
        .send((command, reply))
        .ok()
        .context("the starter has ended")?;
    answer.recv().context("the starter has ended")?
}
