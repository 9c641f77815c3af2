//! The cost of a hop: calls at the owner and at other nodes.

use anyhow::{Context, Result};
use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_partition::Handle;

use super::limits;
use super::load::{RowCommand, RowService, instance};
use super::node::BenchClusterNode;
use super::settings::Settings;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// Commits are slower than reads, so fewer are made.
const SHARE: usize = 5;

pub(super) async fn measure(
    settings: &Settings,
    nodes: &[BenchClusterNode],
    report: &mut Report,
) -> Result<()> {
    let mut trips = limits::round_trips(settings).await?;
    let limits = &mut report.limits;
    limits.record("loopback_round_trip_p50_us", trips.percentile_us(50.0));
    limits.record("loopback_round_trip_p99_us", trips.percentile_us(99.0));
    let (own, other) = (nodes[0].serving(), nodes[1].serving());
    let own = *own.first().context("the first node serves nothing")?;
    let other = *other.first().context("the second node serves nothing")?;
    let handle = nodes[0].handle();
    let rows = [(own, "local"), (other, "one_hop")];
    let mut reads = Vec::new();
    for (place, way) in rows {
        let mut read = call(&handle, place, settings.calls, || RowCommand::Get).await?;
        let mut written = call(&handle, place, settings.calls / SHARE, || {
            RowCommand::Put(Bytes::from_static(&[7; 200]))
        })
        .await?;
        let figures = &mut report.figures;
        for (what, samples) in [("read", &mut read), ("commit", &mut written)] {
            let p50 = samples.percentile_us(50.0);
            figures.record(format!("{what}_{way}_p50_us"), p50);
            figures.record(format!("{what}_{way}_p99_us"), samples.percentile_us(99.0));
        }
        reads.push(read.percentile_us(50.0));
    }
    let cost = reads[1] - reads[0];
    report.figures.record("hop_p50_us", cost);
    let name = "hop_p50_over_loopback_round_trip";
    report
        .figures
        .record(name, cost / trips.percentile_us(50.0));
    Ok(())
}

/// Calls one instance sequentially.
async fn call(
    handle: &Handle<RowService>,
    place: Partition,
    calls: usize,
    ask: impl Fn() -> RowCommand,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..calls.max(1) {
        let waited = Stopwatch::start();
        handle.call_in(place, instance(1), ask()).await?;
        samples.push(waited.elapsed());
    }
    Ok(samples)
}
