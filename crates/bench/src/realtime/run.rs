//! One run of all measurements of the area.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::client::ServerProtocol;
use super::hub::OWN;
use super::server::RealtimeServer;
use super::settings::Settings;
use super::traffic::MeasuredServer;
use super::{limits, migrate, peer};
use crate::machine::Machine;
use crate::process::allow_files;
use crate::report::{GoalBound, Report};

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    allow_files();
    let mut report = Report::new("realtime", Machine::look(&settings.folder));
    let tasks = Runtime::new()?;
    for _ in 0..settings.rounds {
        limits::measure(&mut report).context("limits")?;
        own(&tasks, settings, &mut report).context("the service")?;
        peer::measure(&tasks, settings, &mut report).context("peers")?;
    }
    migrate::measure(settings, &mut report).context("moving clients")?;
    peer::compare(settings, &mut report);
    Ok(report)
}

fn own(tasks: &Runtime, settings: &Settings, report: &mut Report) -> Result<()> {
    let path = format!("/{OWN}");
    let measured = |server: &RealtimeServer| MeasuredServer {
        address: server.address,
        path: &path,
        speech: ServerProtocol::SignalR,
        pid: server.process.id(),
    };
    let server = RealtimeServer::start(&settings.executable)?;
    let idle = measured(&server);
    let idle = tasks.block_on(idle.idle(&server.process, settings.many))?;
    let bound = GoalBound::AtMost(8.0);
    report
        .goals
        .record("memory_per_idle_connection", "KiB", bound, idle.kib_each);
    report.figures.record("connects_per_s", idle.connects_per_s);
    drop(server);
    let server = RealtimeServer::start(&settings.executable)?;
    let own = measured(&server);
    for count in [settings.some, settings.many] {
        let rate = tasks.block_on(own.broadcast(count, settings.duration))?;
        let name = format!("deliveries_per_cpu_s_{count}");
        report.figures.record(name, rate);
    }
    let echoes = tasks.block_on(own.echo(settings.callers, settings.duration))?;
    let figures = &mut report.figures;
    figures.record("echoes_per_s", echoes.per_s);
    figures.record("echo_p50_us", echoes.p50_us);
    figures.record("echo_p99_us", echoes.p99_us);
    Ok(())
}
