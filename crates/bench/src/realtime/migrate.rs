//! Moves many clients while some of them call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use steadfast_core::clock::{Clock as _, SystemClock};
use steadfast_net::access::{ClientTokenOptions, client_token};

use super::app::App;
use super::client::{BenchClient, ServerProtocol};
use super::crowd::connect;
use super::hub::{FAR, SECRET};
use super::server::RealtimeServer;
use super::settings::Settings;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let tasks = tokio::runtime::Runtime::new()?;
    let server = RealtimeServer::start(&settings.executable)?;
    let first = App::start(&settings.executable, server.address, "first")?;
    let wish = ClientTokenOptions {
        hub: FAR.to_owned(),
        lifetime: Duration::from_secs(3600),
        ..ClientTokenOptions::default()
    };
    let now = SystemClock::new().now();
    let shown = client_token(&wish, "127.0.0.1", SECRET, now);
    let path = format!("/client/?hub={FAR}&access_token={shown}");
    let opening = connect(
        server.address,
        &path,
        ServerProtocol::SignalR,
        settings.many,
    );
    let mut clients = tasks.block_on(opening)?;
    let still = clients.split_off(settings.callers.min(clients.len()));
    let second = App::start(&settings.executable, server.address, "second")?;

    let is_over = Arc::new(AtomicBool::new(false));
    let calling: Vec<_> = clients
        .into_iter()
        .map(|client| tasks.spawn(call(client, Arc::clone(&is_over))))
        .collect();
    let watch = Stopwatch::start();
    let left = first.leave().context("the first app server")?;
    let seconds = watch.seconds();
    is_over.store(true, Ordering::SeqCst);
    let lost = tasks.block_on(async {
        let mut lost = 0;
        for calling in calling {
            lost += usize::from(calling.await?.is_err());
        }
        // All others make a call too: a lost client gets no response.
        let asking: Vec<_> = still
            .into_iter()
            .map(|mut client| tokio::spawn(async move { client.echo(1).await }))
            .collect();
        for asking in asking {
            lost += usize::from(asking.await?.is_err());
        }
        anyhow::Ok(lost)
    })?;
    drop(second);
    let goals = &mut report.goals;
    goals.record("move_all_clients", "s", GoalBound::Below(10.0), seconds);
    let gone = (lost + left) as f64;
    goals.record("clients_lost_by_moving", "", GoalBound::AtMost(0.0), gone);
    report.figures.record("moved_clients", settings.many as f64);
    Ok(())
}

/// Calls until `is_over`; fails if a response is missing.
async fn call(mut client: BenchClient, is_over: Arc<AtomicBool>) -> Result<()> {
    let mut number = 0;
    while !is_over.load(Ordering::SeqCst) {
        client.echo(number).await?;
        number += 1;
    }
    client.echo(number).await
}
