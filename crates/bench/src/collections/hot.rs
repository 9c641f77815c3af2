//! Many clients that all change one row.
//!
//! Each holds the row's lock until its commit is durable, so one change needs one sync:
//! the limit is the number of bare syncs per second.

use anyhow::Result;

use super::clients::{ClientWork, work_for};
use super::node::{CollectionNode, home_of};
use super::settings::Settings;
use crate::disk::LogFile;
use crate::process::settle;
use crate::report::Report;

const CLIENTS: u64 = 64;
const KEY: u64 = 7;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let mut file = LogFile::create(folder.path())?;
    let durable = CollectionNode::durable(&folder.path().join("data"))?;
    let volatile = CollectionNode::volatile()?;
    for node in [&durable, &volatile] {
        let home = home_of(&node.homes, KEY).clone();
        node.session.runtime.block_on(home.fill(vec![KEY]))?;
    }
    let work = ClientWork::Change(KEY);
    for _ in 0..settings.rounds {
        settle()?;
        let limit = 1e6 / file.sync_for(settings.duration)?.percentile_us(50.0);
        let ours = work_for(&durable, CLIENTS, work, settings.duration)?;
        settle()?;
        let lost = work_for(&volatile, CLIENTS, work, settings.duration)?;
        report.limits.record("fdatasync_per_s", limit);
        let rate = ours.per_second();
        let figures = &mut report.figures;
        figures.record("hot_row_changes_per_s_64_clients", rate);
        figures.record("hot_row_changes_over_fdatasync", rate / limit);
        let lost = lost.per_second();
        figures.record("volatile_hot_row_changes_per_s_64_clients", lost);
    }
    Ok(())
}
