//! Many clients of one server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::client::{BenchClient, PATIENCE, ServerProtocol};

/// Connections that are opened concurrently.
const AT_ONCE: usize = 64;

/// How often an idle client sends a ping.
const PING: Duration = Duration::from_secs(10);

/// Listening clients with a common counter.
pub(super) struct ClientCrowd {
    heard: Arc<ReceivedMarks>,
    tasks: JoinSet<Result<()>>,
    _stop: watch::Sender<()>,
}

#[derive(Default)]
struct ReceivedMarks {
    messages: AtomicUsize,
    changed: Notify,
}

/// Connects this many clients.
pub(super) async fn connect(
    address: SocketAddr,
    path: &str,
    speech: ServerProtocol,
    count: usize,
) -> Result<Vec<BenchClient>> {
    let starting = stream::iter(0..count).map(|_| BenchClient::start(address, path, speech));
    starting.buffer_unordered(AT_ONCE).try_collect().await
}

impl ClientCrowd {
    /// Starts to listen with these clients.
    pub(super) fn listen(clients: Vec<BenchClient>) -> Self {
        let heard = Arc::new(ReceivedMarks::default());
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        for client in clients {
            tasks.spawn(listen(client, Arc::clone(&heard), stopped.clone()));
        }
        Self {
            heard,
            tasks,
            _stop: stop,
        }
    }

    /// Waits until this many messages have arrived since the last call.
    pub(super) async fn hear(&mut self, count: usize) -> Result<()> {
        let waiting = async {
            loop {
                let changed = self.heard.changed.notified();
                if self.heard.messages.load(Ordering::SeqCst) >= count {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            () = waiting => {}
            ended = self.tasks.join_next() => match ended {
                Some(Ok(Err(error))) => return Err(error),
                _ => bail!("a client has ended"),
            },
            () = tokio::time::sleep(PATIENCE) => {
                let heard = self.heard.messages.load(Ordering::SeqCst);
                bail!("only {heard} of {count} messages have come")
            }
        }
        self.heard.messages.fetch_sub(count, Ordering::SeqCst);
        Ok(())
    }
}

async fn listen(
    mut client: BenchClient,
    heard: Arc<ReceivedMarks>,
    mut stopped: watch::Receiver<()>,
) -> Result<()> {
    let mut ping = tokio::time::interval(PING);
    loop {
        tokio::select! {
            count = client.hear() => {
                let count = count?;
                if count > 0 {
                    heard.messages.fetch_add(count, Ordering::SeqCst);
                    heard.changed.notify_one();
                }
            }
            _ = ping.tick() => client.ping().await?,
            _ = stopped.changed() => return Ok(()),
        }
    }
}
