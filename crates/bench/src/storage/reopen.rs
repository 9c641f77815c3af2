//! Reopen after a kill: a child loads keys and is killed.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, ensure};
use steadfast_storage::Visibility;

use super::load::value_of;
use super::session::{PARTITIONS, Session, TABLE, options};
use super::settings::Settings;
use crate::child::Child;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    report.figures.record("reopen_keys", settings.keys as f64);
    for _ in 0..settings.rounds {
        let folder = settings.temporary()?;
        let data = folder.path().join("data");
        let resident = load_and_kill(settings, &data)?;
        report
            .figures
            .record("loaded_process_resident_mb", resident);
        let run = Stopwatch::start();
        let session = Session::open(&data, options())?;
        read_one_of_each(&session, settings.keys)?;
        let (name, bound) = ("reopen_after_kill", GoalBound::Below(3.0));
        report.goals.record(name, "s", bound, run.seconds());
        let log_mb = session.unflushed() as f64 / 1e6;
        report.figures.record("reopen_replayed_log_mb", log_mb);
    }
    Ok(())
}

/// Lets a child fill a folder and kills it; returns its resident memory.
fn load_and_kill(settings: &Settings, data: &Path) -> Result<f64> {
    let keys = settings.keys.to_string();
    let arguments = [OsStr::new("storage-child"), data.as_os_str(), keys.as_ref()];
    Child::start(&settings.executable, arguments)?.resident_mb()
}

fn read_one_of_each(session: &Session, keys: u64) -> Result<()> {
    session.runtime.block_on(async {
        for key in (0..keys).rev().take(usize::from(PARTITIONS)) {
            let (ledger, row) = (session.ledger_of(key), key.to_be_bytes());
            let found = ledger.get(TABLE, &row, Visibility::Durable).await?;
            let is_right = found.as_deref() == Some(value_of(key, 0).as_slice());
            ensure!(is_right, "key {key} is not as it was committed");
        }
        Ok(())
    })
}
