//! Callers that each keep many calls in flight.
//!
//! A task per call would measure the tasks; so a few callers each wait for many
//! calls at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::stream::{FuturesUnordered, StreamExt};
use steadfast_core::id::Partition;
use steadfast_partition::{Address, Error, Handle};
use steadfast_storage::ErrorKind;

use super::load::{LoadCommand, LoadService};
use super::session::Session;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// Concurrent callers.
const CALLERS: u64 = 8;

/// The result of some callers.
pub(super) struct CallTotals {
    /// From the call to the durable response, of each call.
    pub(super) latencies: Samples,
    pub(super) seconds: f64,
}

/// The next call of a caller.
pub(super) type CallSource = fn(&mut fastrand::Rng, instances: u64) -> (Address, LoadCommand);

/// The work of the callers.
#[derive(Clone, Copy)]
pub(super) struct CallPlan {
    pub(super) next: CallSource,
    pub(super) instances: u64,
    /// The partition of all instances; `None` partitions them by hash.
    pub(super) place: Option<Partition>,
    /// Calls in flight, of all callers together.
    pub(super) open_calls: usize,
    pub(super) duration: Duration,
}

/// Runs the callers for some time.
pub(super) fn call_for(session: &Session, plan: CallPlan) -> Result<CallTotals> {
    let run = Arc::new(Stopwatch::start());
    let start = |seed| {
        let calling = call(session.handle(), plan, seed, Arc::clone(&run));
        // With Tokio's budget, completed calls would wait until others are sent.
        session.tasks.spawn(tokio::task::unconstrained(calling))
    };
    let callers: Vec<_> = (0..CALLERS).map(start).collect();
    let latencies = session.tasks.block_on(async {
        let mut latencies = Samples::default();
        for caller in callers {
            latencies.extend(caller.await??);
        }
        anyhow::Ok(latencies)
    })?;
    Ok(CallTotals {
        latencies,
        seconds: run.seconds(),
    })
}

async fn call(
    handle: Handle<LoadService>,
    plan: CallPlan,
    seed: u64,
    run: Arc<Stopwatch>,
) -> Result<Samples> {
    let window = (plan.open_calls / CALLERS as usize).max(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut latencies = Samples::default();
    let mut open = FuturesUnordered::new();
    let one = |random: &mut fastrand::Rng| {
        let (to, ask) = (plan.next)(random, plan.instances);
        let (handle, run) = (&handle, &run);
        async move {
            let began = run.elapsed();
            match plan.place {
                None => handle.call(to, ask).await,
                Some(place) => handle.call_in(place, to, ask).await,
            }
            .map(|()| (began, run.elapsed()))
        }
    };
    for _ in 0..window {
        open.push(one(&mut random));
    }
    while let Some(done) = open.next().await {
        match done {
            Ok((began, ended)) => {
                latencies.push(ended - began);
                if ended < plan.duration {
                    open.push(one(&mut random));
                }
            }
            Err(error) if is_throttled(&error) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                open.push(one(&mut random));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(latencies)
}

/// Whether the store throttles its writers.
pub(super) fn is_throttled(error: &Error) -> bool {
    let kind = error.storage().map(steadfast_storage::Error::kind);
    matches!(kind, Some(ErrorKind::Throttled { .. }))
}
