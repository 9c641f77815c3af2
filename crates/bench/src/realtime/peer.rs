//! socket.io and plain ws on node, where they are installed.
//!
//! Both are found as Node finds them, also by `NODE_PATH`, and get the same load as our
//! own server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::client::ServerProtocol;
use super::hub::TEXT;
use super::settings::Settings;
use super::traffic::MeasuredServer;
use crate::report::{GoalBound, Report};

/// A peer: its name, its package, its program, its path, its protocol, and the factor
/// by which Steadfast must exceed it.
struct NodePeer {
    name: &'static str,
    package: &'static str,
    program: &'static str,
    path: &'static str,
    speech: ServerProtocol,
    factor: f64,
}

const PEERS: [NodePeer; 2] = [
    NodePeer {
        name: "socketio",
        package: "socket.io",
        program: include_str!("socketio.js"),
        path: "/socket.io/?EIO=4&transport=websocket",
        speech: ServerProtocol::SocketIo,
        factor: 5.0,
    },
    NodePeer {
        name: "ws",
        package: "ws",
        program: include_str!("ws.js"),
        path: "/",
        speech: ServerProtocol::Plain,
        factor: 3.0,
    },
];

/// Measures the installed peers.
pub(super) fn measure(tasks: &Runtime, settings: &Settings, report: &mut Report) -> Result<()> {
    for peer in PEERS.iter().filter(|peer| peer.is_installed()) {
        let server = PeerProcess::start(peer)?;
        let measured = MeasuredServer {
            address: ([127, 0, 0, 1], server.port).into(),
            path: peer.path,
            speech: peer.speech,
            pid: server.process.id(),
        };
        let duration = settings.duration;
        for count in [settings.some, settings.many] {
            let rate = tasks.block_on(measured.broadcast(count, duration))?;
            let name = format!("{}_deliveries_per_cpu_s_{count}", peer.name);
            report.figures.record(name, rate);
        }
        let echoes = tasks.block_on(measured.echo(settings.callers, duration))?;
        let name = format!("{}_echoes_per_s", peer.name);
        report.figures.record(name, echoes.per_s);
    }
    Ok(())
}

/// Adds the comparisons with the measured peers.
pub(super) fn compare(settings: &Settings, report: &mut Report) {
    for peer in &PEERS {
        for count in [settings.some, settings.many] {
            let own = report
                .figures
                .largest(&format!("deliveries_per_cpu_s_{count}"));
            let theirs = format!("{}_deliveries_per_cpu_s_{count}", peer.name);
            let ratio = own / report.figures.largest(&theirs);
            if ratio.is_finite() {
                let name = format!("deliveries_{count}_of_{}", peer.name);
                let bound = GoalBound::AtLeast(peer.factor);
                report.goals.record(name, "x", bound, ratio);
            }
        }
    }
}

impl NodePeer {
    fn is_installed(&self) -> bool {
        let mut node = Command::new("node");
        node.args(["-e", &format!("require('{}')", self.package)]);
        node.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        node.status().is_ok_and(|status| status.success())
    }
}

/// A running peer, killed on drop.
struct PeerProcess {
    process: Child,
    port: u16,
}

impl PeerProcess {
    fn start(peer: &NodePeer) -> Result<Self> {
        let child = Command::new("node")
            .args(["-e", peer.program, "--", TEXT])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut running = Self {
            process: child.context("start node")?,
            port: 0,
        };
        let output = running.process.stdout.take().context("it has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        running.port = line.trim().parse().context("node said no port")?;
        Ok(running)
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
