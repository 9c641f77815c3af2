//! Enumerations of a whole dictionary, in order.
//!
//! Durable rows are in tables and their pages cached; volatile ones are in maps. A
//! bare ordered map with the same rows is the limit.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use steadfast_collections::DictionaryQuery;

use super::node::{CollectionNode, RowValue};
use super::settings::Settings;
use crate::process::settle;
use crate::report::Report;
use crate::stopwatch::Stopwatch;
use crate::storage::load::value_of;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let durable = CollectionNode::durable(&folder.path().join("data"))?;
    let volatile = CollectionNode::volatile()?;
    let rows = settings.read_rows;
    for node in [&durable, &volatile] {
        let home = node.homes.first().context("there are no partitions")?;
        let fill = home.clone().fill((0..rows).collect());
        node.session.runtime.block_on(fill)?;
        node.session.flush()?;
    }
    let map: BTreeMap<u64, RowValue> = (0..rows).map(|key| (key, value_of(key, 0))).collect();
    let time = settings.duration / 3;
    for _ in 0..settings.rounds {
        settle()?;
        let limit = scan_map(&map, time);
        report.limits.record("ordered_map_rows_per_s", limit);
        let ours = scan(&durable, rows, time)?;
        report.figures.record("scan_rows_per_s", ours);
        let lost = scan(&volatile, rows, time)?;
        report.figures.record("volatile_scan_rows_per_s", lost);
    }
    Ok(())
}

fn scan_map(map: &BTreeMap<u64, RowValue>, time: Duration) -> f64 {
    let run = Stopwatch::start();
    let mut rows = 0;
    while run.elapsed() < time {
        for (key, value) in map {
            black_box((*key, *value));
        }
        rows += map.len();
    }
    rows as f64 / run.seconds()
}

/// Rows per second of whole enumerations, each in its own transaction.
fn scan(node: &CollectionNode, expected: u64, time: Duration) -> Result<f64> {
    let home = node.homes.first().context("there are no partitions")?;
    let run = Stopwatch::start();
    node.session.runtime.block_on(async {
        let mut rows = 0;
        while run.elapsed() < time {
            let mut tx = home.replica.begin();
            let mut cursor = home.rows.enumerate(DictionaryQuery::all())?;
            let mut found = 0;
            while let Some(page) = cursor.next(&mut tx).await? {
                found += page.len() as u64;
                black_box(page);
            }
            ensure!(found == expected, "{found} rows, not {expected}");
            rows += found;
        }
        Ok(rows as f64 / run.seconds())
    })
}
