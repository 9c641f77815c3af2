//! Point reads of cached rows.
//!
//! One thread reads, with many reads per transaction and with one. A bare hash map with
//! the same rows is the limit. Allocations are not measured here: counting them needs
//! an allocator, which needs unsafe code. The test `random` of the collections counts
//! them instead.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::node::{BenchPartition, CollectionNode, RowValue};
use super::settings::Settings;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;
use crate::storage::load::value_of;

/// Reads in one transaction, and between two readings of the clock.
const READS: u64 = 1000;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let node = CollectionNode::volatile()?;
    let home = node.homes.first().context("there are no partitions")?;
    let rows = settings.read_rows;
    let fill = home.clone().fill((0..rows).collect());
    node.session.runtime.block_on(fill)?;
    let map: HashMap<u64, Arc<RowValue>> = (0..rows)
        .map(|key| (key, Arc::new(value_of(key, 0))))
        .collect();
    let time = settings.duration / 3;
    for _ in 0..settings.rounds {
        settle()?;
        let limit = read_map(&map, rows, time)?;
        report.limits.record("hash_map_reads_per_s", limit);
        let many = read_many(&node, home, rows, time)?;
        let name = "point_reads_per_s_per_core";
        let bound = GoalBound::AtLeast(1e6);
        report.goals.record(name, "reads/s", bound, many);
        let figures = &mut report.figures;
        figures.record("point_reads_over_hash_map", many / limit);
        let single = read_single(&node, home, rows, time)?;
        figures.record("single_read_transactions_per_s_per_core", single);
    }
    Ok(())
}

fn read_map(map: &HashMap<u64, Arc<RowValue>>, rows: u64, time: Duration) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(0);
    let run = Stopwatch::start();
    let mut reads = 0;
    while run.elapsed() < time {
        for _ in 0..READS {
            let value = map.get(&random.u64(..rows)).context("a row is missing")?;
            black_box(Arc::clone(value));
        }
        reads += READS;
    }
    Ok(reads as f64 / run.seconds())
}

/// Many reads in each transaction.
fn read_many(
    node: &CollectionNode,
    home: &BenchPartition,
    rows: u64,
    time: Duration,
) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(0);
    let run = Stopwatch::start();
    node.session.runtime.block_on(async {
        let mut reads = 0;
        while run.elapsed() < time {
            let mut tx = home.replica.begin();
            for _ in 0..READS {
                let value = home.rows.get(&mut tx, &random.u64(..rows)).await?;
                black_box(value.context("a row is missing")?);
            }
            drop(tx);
            reads += READS;
        }
        Ok(reads as f64 / run.seconds())
    })
}

/// One read in each transaction.
fn read_single(
    node: &CollectionNode,
    home: &BenchPartition,
    rows: u64,
    time: Duration,
) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(0);
    let run = Stopwatch::start();
    node.session.runtime.block_on(async {
        let mut reads = 0;
        while run.elapsed() < time {
            for _ in 0..READS {
                let mut tx = home.replica.begin();
                let value = home.rows.get(&mut tx, &random.u64(..rows)).await?;
                black_box(value.context("a row is missing")?);
            }
            reads += READS;
        }
        Ok(reads as f64 / run.seconds())
    })
}
