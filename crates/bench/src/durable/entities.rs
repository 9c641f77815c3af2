//! Signals and calls of entities.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use steadfast_durable::{EntityListQuery, EntityOperation, TaskHub};

use super::session::Session;
use super::settings::Settings;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// How many entities the load is spread over.
const SPREADS: [u64; 3] = [1, 1000, 100_000];

pub(super) fn measure(settings: &Settings, report: &mut Report, sync_us: f64) -> Result<()> {
    for keys in SPREADS {
        for _ in 0..settings.rounds {
            let folder = settings.temporary()?;
            let session = Session::open(&folder.path().join("data"))?;
            settle()?;
            let rate = session
                .tasks
                .block_on(signals(settings, &session.hub, keys))?;
            let name = format!("signals_per_s_{keys}_keys");
            match keys {
                1 => goal(report, name, 20_000.0, rate),
                1000 => goal(report, name, 100_000.0, rate),
                _ => report.figures.record(name, rate),
            }
            let clients = settings.clients;
            let (rate, mut times) =
                session
                    .tasks
                    .block_on(calls(settings, &session.hub, keys, clients))?;
            let figures = &mut report.figures;
            figures.record(format!("calls_per_s_{keys}_keys"), rate);
            figures.record(
                format!("call_p50_us_{keys}_keys"),
                times.percentile_us(50.0),
            );
            figures.record(
                format!("call_p99_us_{keys}_keys"),
                times.percentile_us(99.0),
            );
            if keys == 1000 {
                let (_, mut times) =
                    session
                        .tasks
                        .block_on(calls(settings, &session.hub, keys, 1))?;
                let ratio = times.percentile_us(50.0) / sync_us;
                let goals = &mut report.goals;
                goals.record("call_p50_over_fdatasync", "x", GoalBound::Below(3.0), ratio);
            }
        }
    }
    Ok(())
}

fn goal(report: &mut Report, name: String, bound: f64, rate: f64) {
    report
        .goals
        .record(name, "1/s", GoalBound::AtLeast(bound), rate);
}

fn add(key: u64) -> EntityOperation {
    EntityOperation {
        name: "add".into(),
        target: format!("@counter@{key}"),
        input: Some("1".into()),
        ..EntityOperation::default()
    }
}

/// Signals per second, measured until the last one has run.
async fn signals(settings: &Settings, hub: &TaskHub, keys: u64) -> Result<f64> {
    let watch = Arc::new(Stopwatch::start());
    let sent = Arc::new(AtomicU64::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..settings.clients {
        let (hub, sent, watch) = (hub.clone(), Arc::clone(&sent), Arc::clone(&watch));
        let duration = settings.duration;
        clients.spawn(async move {
            while watch.elapsed() < duration {
                hub.signal(add(fastrand::u64(..keys))).await?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    while backlog(hub).await? > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (rate, sum) = (
        sent.load(Ordering::Relaxed) as f64 / watch.seconds(),
        sum(hub).await?,
    );
    if sum == sent.load(Ordering::Relaxed) {
        Ok(rate)
    } else {
        bail!("{sum} signals have run, and others were sent")
    }
}

/// Calls per second, and the latency of each.
async fn calls(
    settings: &Settings,
    hub: &TaskHub,
    keys: u64,
    clients: usize,
) -> Result<(f64, Samples)> {
    let watch = Arc::new(Stopwatch::start());
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (hub, watch, duration) = (hub.clone(), Arc::clone(&watch), settings.duration);
        running.spawn(async move {
            let mut times = Vec::new();
            while watch.elapsed() < duration {
                let began = watch.elapsed();
                let answer = hub.call(add(fastrand::u64(..keys))).await?;
                answer.map_err(|failure| anyhow::anyhow!("{failure}"))?;
                times.push(watch.elapsed() - began);
            }
            anyhow::Ok(times)
        });
    }
    let mut samples = Samples::default();
    while let Some(times) = running.join_next().await {
        for time in times?? {
            samples.push(time);
        }
    }
    Ok((samples.len() as f64 / watch.seconds(), samples))
}

/// The number of pending requests of all entities.
async fn backlog(hub: &TaskHub) -> Result<u64> {
    over_all(hub, |found| found.backlog).await
}

/// The sum of all counters.
async fn sum(hub: &TaskHub) -> Result<u64> {
    let value = |found: &steadfast_durable::EntityView| {
        let state = found.state.as_deref().unwrap_or("0");
        state.parse().unwrap_or(0)
    };
    over_all(hub, value).await
}

async fn over_all(
    hub: &TaskHub,
    value: impl Fn(&steadfast_durable::EntityView) -> u64,
) -> Result<u64> {
    let mut query = EntityListQuery {
        has_state: true,
        is_transient_wanted: true,
        limit: 10_000,
        ..EntityListQuery::default()
    };
    let mut total = 0;
    loop {
        let page = hub.entities(&query).await?;
        total += page.items.iter().map(&value).sum::<u64>();
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(total),
        }
    }
}
