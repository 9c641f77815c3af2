//! Messages from partition to partition.
//!
//! Each message is a row of its sender and, where it arrives, a commit that puts a row
//! of 100 bytes; then the sender's row is deleted. The time counts until the last one
//! has been handled.

use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use steadfast_partition::Address;

use super::caller::{CallPlan, call_for};
use super::commands::value;
use super::load::{LoadCommand, instance};
use super::session::Session;
use super::settings::Settings;
use crate::process::{cpu_seconds, settle};
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// Messages that one command sends.
const MESSAGES: u64 = 8;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"))?;
    for _ in 0..settings.rounds {
        settle()?;
        session.engine.take_appends();
        session.take_longest();
        let before = session.commands();
        let processor = cpu_seconds()?;
        let run = Stopwatch::start();
        let plan = CallPlan {
            next: tell,
            instances: settings.instances,
            place: None,
            // Callers do not wait for their messages, so fewer calls are in flight.
            open_calls: settings.open_calls / 16,
            duration: settings.duration,
        };
        let calls = call_for(&session, plan)?.latencies.len() as u64;
        wait_for(&session, before + calls * (1 + MESSAGES));
        let messages = (calls * MESSAGES) as f64;
        let processor = cpu_seconds()? - processor;
        let groups = session.engine.take_appends().len().max(1);
        let longest = session.take_longest();
        let figures = &mut report.figures;
        figures.record("outbox_messages_per_s", messages / run.seconds());
        figures.record("outbox_messages_per_sync", messages / groups as f64);
        let processor_us = processor * 1e6 / messages;
        figures.record("processor_us_per_outbox_message", processor_us);
        longest.record("outbox", figures);
    }
    Ok(())
}

/// Waits until this many commands have been handled.
fn wait_for(session: &Session, commands: u64) {
    while session.commands() < commands {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn tell(random: &mut Rng, instances: u64) -> (Address, LoadCommand) {
    let others = (0..MESSAGES).map(|_| random.u64(..instances)).collect();
    let from = instance(random.u64(..instances));
    (from, LoadCommand::Tell(others, value(random)))
}
