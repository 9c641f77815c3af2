//! Memory, connections, broadcasts and calls of one server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::client::{BenchClient, ServerProtocol};
use super::crowd::{ClientCrowd, connect};
use crate::child::Child;
use crate::process::cpu_seconds_of;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// Broadcasts that are sent one after another, without waiting for the clients.
pub(super) const BURST: usize = 32;

/// A server that is measured.
pub(super) struct MeasuredServer<'a> {
    pub(super) address: SocketAddr,
    pub(super) path: &'a str,
    pub(super) speech: ServerProtocol,
    pub(super) pid: u32,
}

/// The cost of an idle connection.
pub(super) struct IdleCost {
    pub(super) kib_each: f64,
    pub(super) connects_per_s: f64,
}

/// The result of echoed calls.
pub(super) struct EchoResult {
    pub(super) per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

impl MeasuredServer<'_> {
    /// Measures connections that send nothing.
    pub(super) async fn idle(&self, process: &Child, count: usize) -> Result<IdleCost> {
        // The one-time cost of the first clients is not counted.
        let first = connect(self.address, self.path, self.speech, count / 10).await?;
        let before = process.resident_mb()?;
        let watch = Stopwatch::start();
        let clients = connect(self.address, self.path, self.speech, count).await?;
        let seconds = watch.seconds();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let more = process.resident_mb()? - before;
        drop((first, clients));
        Ok(IdleCost {
            kib_each: more * 1e6 / 1024.0 / count as f64,
            connects_per_s: count as f64 / seconds,
        })
    }

    /// Deliveries per second of the server's CPU time, to this many clients.
    pub(super) async fn broadcast(&self, count: usize, duration: Duration) -> Result<f64> {
        let mut sender = BenchClient::start(self.address, self.path, self.speech).await?;
        let clients = connect(self.address, self.path, self.speech, count - 1).await?;
        let mut crowd = ClientCrowd::listen(clients);
        let mut burst = async || {
            sender.flood(BURST).await?;
            sender.hear_all(BURST).await?;
            crowd.hear(BURST * (count - 1)).await
        };
        burst().await?;
        let pid = self.pid.to_string();
        let before = cpu_seconds_of(&pid)?;
        let (watch, mut bursts) = (Stopwatch::start(), 0);
        while watch.elapsed() < duration || bursts < 3 {
            burst().await?;
            bursts += 1;
        }
        let cpu = cpu_seconds_of(&pid)? - before;
        Ok((bursts * BURST * count) as f64 / cpu.max(0.01))
    }

    /// Measures calls of some clients; each client calls sequentially.
    pub(super) async fn echo(&self, callers: usize, duration: Duration) -> Result<EchoResult> {
        let clients = connect(self.address, self.path, self.speech, callers).await?;
        let watch = Stopwatch::start();
        let calling = clients.into_iter().map(|mut client| {
            tokio::spawn(async move {
                let mut samples = Samples::default();
                let all = Stopwatch::start();
                while all.elapsed() < duration {
                    let one = Stopwatch::start();
                    client.echo(samples.len()).await?;
                    samples.push(one.elapsed());
                }
                anyhow::Ok(samples)
            })
        });
        let calling: Vec<_> = calling.collect();
        let mut samples = Samples::default();
        for calling in calling {
            samples.extend(calling.await??);
        }
        Ok(EchoResult {
            per_s: samples.len() as f64 / watch.seconds(),
            p50_us: samples.percentile_us(50.0),
            p99_us: samples.percentile_us(99.0),
        })
    }
}
