//! The same over gRPC, with our own worker and clients.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use steadfast_client::durabletask::{TaskHubClient, TaskHubWorker};
use steadfast_durable::{EntityOperation, InstanceStatus, NewInstance, Task};

use super::functions::functions;
use super::settings::Settings;
use crate::child::Child;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

/// How many entities the load is spread over.
const KEYS: u64 = 1000;
/// The work items of one sequence: six turns and five activities.
const ITEMS: f64 = 11.0;
/// Concurrent clients; each has one request in flight.
const CLIENTS: usize = 256;
/// Connections that they share.
const CONNECTIONS: usize = 4;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let tasks = tokio::runtime::Runtime::new()?;
    for _ in 0..settings.rounds {
        let rate = run(settings, &tasks, |client| async move {
            let task = Task {
                name: "sequence".into(),
                input: Some("0".into()),
                ..Task::default()
            };
            let id = client.start(NewInstance::of(task)).await?;
            let end = client.ended(&id, false).await?;
            ensure!(end.status == InstanceStatus::Completed, "{:?}", end.failure);
            Ok(())
        })?;
        report
            .figures
            .record("grpc_five_activity_sequences_per_s", rate);
        let goals = &mut report.goals;
        let bound = GoalBound::AtLeast(10_000.0);
        goals.record("grpc_work_items_per_s", "1/s", bound, rate * ITEMS);
        let rate = run(settings, &tasks, |client| async move {
            Ok(client.signal(add()).await?)
        })?;
        let name = format!("grpc_signals_per_s_{KEYS}_keys");
        report.figures.record(name, rate);
        let rate = run(settings, &tasks, |client| async move {
            let answer = client.call(add()).await?;
            answer.map_err(|failure| anyhow::anyhow!("{failure}"))?;
            Ok(())
        })?;
        let name = format!("grpc_calls_per_s_{KEYS}_keys");
        report.figures.record(name, rate);
    }
    Ok(())
}

fn add() -> EntityOperation {
    EntityOperation {
        name: "add".into(),
        target: format!("@counter@{}", fastrand::u64(..KEYS)),
        input: Some("1".into()),
        ..EntityOperation::default()
    }
}

/// Operations per second of all clients, with one worker.
fn run<F>(
    settings: &Settings,
    tasks: &tokio::runtime::Runtime,
    one: impl Fn(TaskHubClient) -> F + Copy + Send + 'static,
) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send,
{
    let folder = settings.temporary()?;
    let (_server, connection) = start(settings, &folder.path().join("data"))?;
    settle()?;
    tasks.block_on(async {
        let worker = TaskHubWorker::connect(&connection)?.functions(|_| functions());
        let worker = worker.start()?;
        worker.ready().await;
        let clients: Result<Vec<_>, _> = (0..CONNECTIONS)
            .map(|_| TaskHubClient::connect(&connection))
            .collect();
        let clients = clients?;
        let (watch, done) = (Arc::new(Stopwatch::start()), Arc::new(AtomicU64::new(0)));
        let mut running = tokio::task::JoinSet::new();
        for number in 0..CLIENTS.min(settings.clients) {
            let client = clients[number % CONNECTIONS].clone();
            let (watch, done) = (Arc::clone(&watch), Arc::clone(&done));
            let duration = settings.duration;
            running.spawn(async move {
                while watch.elapsed() < duration {
                    one(client.clone()).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        while let Some(client) = running.join_next().await {
            client??;
        }
        Ok(done.load(Ordering::Relaxed) as f64 / watch.seconds())
    })
}

/// A server on a folder, and the connection string of its task hub.
fn start(settings: &Settings, data: &Path) -> Result<(Child, String)> {
    let arguments = [OsStr::new("durable-server"), data.as_os_str()];
    let (child, said) = Child::start_saying(&settings.executable, arguments)?;
    let port: u16 = said.parse().context("the child says no port")?;
    Ok((
        child,
        format!("Endpoint=http://127.0.0.1:{port};TaskHub=default"),
    ))
}
