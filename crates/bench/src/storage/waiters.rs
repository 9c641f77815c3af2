//! Group commit for the peer, with waiting writers.
//!
//! A writer waits for the rest of the current group and then for its own group. The
//! peer has no group commit, so one thread adds it: it takes all queued rows, commits
//! them as one batch with one `fdatasync`, and replies.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::load::{VALUE_BYTES, value_of};
use super::peer::{FjallPeer, PeerLoad};
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// A row and the reply channel of its writer.
struct PeerWrite {
    key: u64,
    value: [u8; VALUE_BYTES],
    reply: oneshot::Sender<()>,
}

/// Runs writers that put one row after the other, each on its own task.
pub(super) fn put_for(
    peer: &FjallPeer,
    writers: u64,
    keys: u64,
    time: Duration,
) -> Result<PeerLoad> {
    let runtime = Runtime::new()?;
    let (orders, inbox) = channel();
    let run = Arc::new(Stopwatch::start());
    let start = |writer| {
        let writing = write(orders.clone(), writer, keys, Arc::clone(&run), time);
        runtime.spawn(writing)
    };
    let tasks: Vec<_> = (0..writers).map(start).collect();
    drop(orders);
    // Ends when the last writer has dropped its sender.
    serve(peer, &inbox)?;
    let seconds = run.seconds();
    let latencies = runtime.block_on(async {
        let mut latencies = Samples::default();
        for task in tasks {
            latencies.extend(task.await??);
        }
        anyhow::Ok(latencies)
    })?;
    Ok(PeerLoad {
        commits_per_s: latencies.len() as f64 / seconds,
        latencies,
    })
}

fn serve(peer: &FjallPeer, inbox: &Receiver<PeerWrite>) -> Result<()> {
    while let Ok(first) = inbox.recv() {
        let mut group = vec![first];
        group.extend(inbox.try_iter());
        peer.commit(group.iter().map(|order| (order.key, order.value)))?;
        for order in group {
            // A writer waits until it is answered.
            let _ = order.reply.send(());
        }
    }
    Ok(())
}

async fn write(
    orders: Sender<PeerWrite>,
    writer: u64,
    keys: u64,
    run: Arc<Stopwatch>,
    time: Duration,
) -> Result<Samples> {
    let mut random = fastrand::Rng::with_seed(writer);
    let mut latencies = Samples::default();
    while run.elapsed() < time || latencies.len() == 0 {
        let key = random.u64(..keys);
        let value = value_of(key, latencies.len());
        let commit = Stopwatch::start();
        let (reply, answer) = oneshot::channel();
        let order = PeerWrite { key, value, reply };
        orders
            .send(order)
            .map_err(|_| anyhow!("the peer stopped"))?;
        answer.await?;
        latencies.push(commit.elapsed());
    }
    Ok(latencies)
}
