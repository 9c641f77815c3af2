//! A running node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast_admin::{DrainReport, NodeAdmin, NodeStatus, RestoreOutcome};
use steadfast_collections::{PartitionKey, Replica, Scheme};
use steadfast_core::clock::Timestamp;
use steadfast_durable::TaskHubs;
use steadfast_events::{Blobs, EventHubs};
use steadfast_jobs::JobClient;
use steadfast_net::access::KeyRing;
use steadfast_net::connection_string::{ClientKeys, ConnectionString, Endpoint};
use steadfast_net::http::State;
use steadfast_partition::{CollectionReplicas, DrainSummary, Handle, Runtime, Service};
use steadfast_realtime::Realtime;
use tokio_util::sync::DropGuard;

use super::backup_restore;
use super::connection_drain::ConnectionDrain;
use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use super::service_partition::ServicePartition;
use super::stateful_service::StatefulService;
use super::time::{AdvanceOptions, TimeReport};
use crate::config::Config;

/// A running node. Clones are handles of the same node. Dropping all of them stops it as a
/// crash would: no acknowledged write is lost, but clients and peers get no notice.
///
/// [`Node::builder`] and [`Builder::start`](crate::Builder::start) create it.
///
/// ```
/// use std::time::Duration;
/// use steadfast::config::{Config, Layers};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut layers = Layers::new();
/// for port in ["http.port", "events.amqp_port", "events.blob_port", "durable.port", "realtime.port"] {
///     layers = layers.flag(&format!("{port}=0"))?;
/// }
/// let config = Config::new(&layers)?;
/// let builder = steadfast::Node::builder().config(config).memory();
/// let node = builder.serve().development().start().await?;
/// assert!(node.addresses()[0].url.starts_with("http://127.0.0.1:"));
/// assert_eq!(node.connection_strings()[0].1, "Authorization: Bearer SAS_KEY_VALUE");
/// assert_eq!(node.status().state, "ready");
///
/// node.on_reload("mine", |config| {
///     println!("log.level is {} now", config.log_level);
///     Ok(())
/// });
/// assert_eq!(node.reload()?, ["keys", "mine"]);
///
/// let sheet = node.drain(Duration::from_secs(30)).await;
/// assert_eq!((sheet.moved, sheet.lost), (64, 0));
/// node.stop(Duration::from_secs(2)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
    /// Connections hold parts of the node too: they close with the last clone.
    _stop: Arc<DropGuard>,
}

impl Node {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let stop = Arc::new(inner.stop.clone().drop_guard());
        Self { inner, _stop: stop }
    }

    /// Calls instances of a service that [`Builder::service`](crate::Builder::service)
    /// has registered; see there for an example.
    pub fn handle<S: Service>(&self) -> Handle<S> {
        self.inner.runtime.handle()
    }

    /// Opens a service of collections with one partition, or creates it: the common case.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().start().await?;
    /// let bank = node.singleton("bank").await?;
    /// let accounts = bank.dictionary::<String, i64>("accounts").await?;
    /// let balance = bank.transact(async |mut tx| {
    ///     let balance = accounts.add_or_update(&mut tx, "alice", || 100, |n| n + 1).await?;
    ///     tx.commit(*balance).await
    /// });
    /// assert_eq!(balance.await?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn singleton(&self, name: &str) -> Result<ServicePartition> {
        let service = self.partitioned(name, Scheme::Singleton).await?;
        service.partition(PartitionKey::Only).await
    }

    /// Opens a partitioned service of collections, or creates it; its scheme is fixed from
    /// then on.
    pub async fn partitioned(&self, name: &str, scheme: Scheme) -> Result<StatefulService> {
        StatefulService::open(Arc::clone(&self.inner), name, scheme, false).await
    }

    /// Opens or creates a service that is kept in memory only, without durability. In a
    /// cluster up to three nodes replicate it, and it survives the loss of any minority of
    /// them. [`StatefulService::partition_with`] reports a loss.
    pub async fn volatile_service(&self, name: &str, scheme: Scheme) -> Result<StatefulService> {
        StatefulService::open(Arc::clone(&self.inner), name, scheme, true).await
    }

    /// The collections of one store partition, beneath all services.
    pub async fn replica(&self, partition: u16) -> Result<Replica> {
        self.inner.replica(partition).await
    }

    /// The partition runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Event hubs: create them, send, read, process.
    pub fn event_hubs(&self) -> &EventHubs {
        &self.inner.services.hubs
    }

    /// Small blobs, such as the checkpoints of event processors.
    pub fn blobs(&self) -> &Blobs {
        &self.inner.services.blobs
    }

    /// Task hubs: orchestrations and entities, for clients and workers.
    pub fn task_hubs(&self) -> &TaskHubs {
        &self.inner.services.task_hubs
    }

    /// Jobs: create them, run them, read their history. In a region pair these are the jobs
    /// whose home is this region; their collections are created over REST, which reserves
    /// the name in both regions.
    pub fn jobs(&self) -> &JobClient {
        &self.inner.services.jobs
    }

    /// SignalR hubs: list their clients and send to them.
    pub fn realtime(&self) -> &Realtime {
        &self.inner.hosted.realtime
    }

    /// The collections of all local partitions, for commits that also contain commands to
    /// instances.
    pub fn replicas(&self) -> &Arc<CollectionReplicas> {
        &self.inner.services.replicas
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.inner.addresses.lock().clone()
    }

    /// Connection strings of the well-known keys by name, secrets included. Empty without
    /// these keys, or if clients cannot reach the address.
    pub fn connection_strings(&self) -> Vec<(&'static str, String)> {
        self.inner.connection_strings()
    }

    /// The status of the node.
    pub fn status(&self) -> NodeStatus {
        NodeAdmin::status(&*self.inner)
    }

    /// The keys in effect.
    pub fn ring(&self) -> Arc<KeyRing> {
        self.inner.access.ring()
    }

    /// Reads keys and certificate again, and runs the hooks of [`Node::on_reload`].
    pub fn reload(&self) -> std::result::Result<Vec<String>, String> {
        NodeAdmin::reload(&*self.inner).map_err(|problem| problem.to_string())
    }

    /// Adds a hook that applies the configuration on [`Node::reload`].
    pub fn on_reload(
        &self,
        name: &'static str,
        reload: impl Fn(&Config) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) {
        self.inner.reloads.lock().push((name, Box::new(reload)));
    }

    /// Adds a hook that runs when the node drains, before its partitions are handed over.
    /// Hooks run in the order in which they were added, within the limit of the drain.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().start().await?;
    /// let told = Arc::new(AtomicBool::new(false));
    /// let tell = Arc::clone(&told);
    /// node.on_drain(async move { tell.store(true, Ordering::Relaxed) });
    /// node.drain(std::time::Duration::from_secs(5)).await;
    /// assert!(told.load(Ordering::Relaxed));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_drain(&self, hook: impl Future<Output = ()> + Send + 'static) {
        self.inner.hooks.lock().push(Box::pin(hook));
    }

    /// Drains the node: it accepts no more work, completes or hands over what is in flight,
    /// cuts off the rest at the limit and returns a report. The drain continues if the
    /// future is dropped; a second call returns the report of the first.
    pub async fn drain(&self, limit: Duration) -> DrainReport {
        self.inner.leave(limit).await
    }

    /// Waits until everything that is due has ended; see [`crate::testing`].
    pub(crate) async fn settle(&self, options: AdvanceOptions) -> Result<TimeReport> {
        Ok(self.inner.settle(options).await?)
    }

    /// Moves virtual time by a duration; see [`crate::testing`].
    pub(crate) async fn advance_by(
        &self,
        by: Duration,
        options: AdvanceOptions,
    ) -> Result<TimeReport> {
        Ok(self.inner.advance_by(by, options).await?)
    }

    /// Moves virtual time to a moment; see [`crate::testing`].
    pub(crate) async fn advance_to(
        &self,
        to: Timestamp,
        options: AdvanceOptions,
    ) -> Result<TimeReport> {
        Ok(self.inner.advance_to(to, options).await?)
    }

    /// Ends the node as a crash would, while clones of it exist. The closure does the same,
    /// and does not keep the node alive.
    pub(crate) fn crasher(&self) -> impl Fn() + Send + Sync + 'static {
        let weak = Arc::downgrade(&self.inner);
        move || {
            if let Some(inner) = weak.upgrade() {
                inner.crash();
            }
        }
    }

    /// Runs the restore that was requested over REST, if any. The node must have been
    /// drained and stopped; this waits until its last clone is dropped, which releases the
    /// folder.
    pub async fn restore(self) -> Option<RestoreOutcome> {
        let order = self.inner.pending_restore.lock().take()?;
        let number = self.inner.restores + 1;
        let data = self.inner.config.data.clone();
        let key = self.inner.backup_key.clone();
        let outcome = if self.close().await {
            backup_restore::restore(&data, order, key).await
        } else {
            Err("the node is still in use: a clone of it was not dropped".to_owned())
        };
        Some(RestoreOutcome { number, outcome })
    }

    /// Releases all resources, so that the folder can be opened again. False if a clone of
    /// the node is still in use.
    async fn close(self) -> bool {
        let mut inner = self.inner;
        for _ in 0..RELEASE_TRIES {
            // Tasks that have answered their last request are about to end.
            inner = match Arc::try_unwrap(inner) {
                Ok(inner) => {
                    inner.close().await;
                    return true;
                }
                Err(shared) => shared,
            };
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
        false
    }

    /// The port of REST, health and metrics, if it is open.
    pub fn http_port(&self) -> Option<u16> {
        let addresses = self.inner.addresses.lock();
        let http = addresses.iter().find(|address| address.name == "http")?;
        http.url.rsplit(':').next()?.parse().ok()
    }

    /// Waits until the node was drained over REST.
    pub async fn drained(&self) {
        self.inner.ended.cancelled().await;
    }

    /// Closes connections and waits for them until the limit. Partitions that were not
    /// drained are left as after a crash.
    pub async fn stop(&self, limit: Duration) {
        // AMQP connections that were not drained close too.
        self.inner.leaving.cancel();
        self.inner.stop.cancel();
        self.inner.tasks.close();
        // Tasks that have not ended by then end with the process.
        let _ = tokio::time::timeout(limit, self.inner.tasks.wait()).await;
    }
}

/// The number of checks whether a node is unused, and the pause between them.
const RELEASE_TRIES: u32 = 500;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

impl Inner {
    /// The connection strings of the well-known keys.
    pub(super) fn connection_strings(&self) -> Vec<ConnectionString> {
        let endpoint = Endpoint::of_addresses(&NodeAdmin::addresses(self));
        let keys = ClientKeys::known(&self.access.ring());
        let both = endpoint.zip(keys);
        both.map(|(endpoint, keys)| endpoint.strings(&keys))
            .unwrap_or_default()
    }

    /// Ends everything at once: no notice, no handover, nothing is waited for. Commits in
    /// progress may become durable.
    fn crash(&self) {
        self.leaving.cancel();
        self.stop.cancel();
        self.runtime.abandon_all();
        self.hosts.lock().clear();
        self.hooks.lock().clear();
        self.services.jobs.stop();
    }

    /// Stops everything that uses the state, and closes it.
    async fn close(self) {
        drop(self.cluster);
        drop(self.paired);
        drop(self.services);
        drop(self.volatile);
        drop(self.runtime);
        if let Ok(store) = Arc::try_unwrap(self.store) {
            store.close().await;
        }
    }

    /// Runs the four phases once. They continue if the caller disconnects.
    pub(super) async fn leave(&self, limit: Duration) -> DrainReport {
        let mut left = self.left.subscribe();
        if !self.is_leaving.swap(true, Ordering::SeqCst) {
            let me = self.me.upgrade().expect("the caller holds the node");
            self.tasks.spawn(async move {
                let sheet = me.do_leave(limit).await;
                me.left.send_replace(Some(sheet));
            });
        }
        let sheet = left.wait_for(Option::is_some).await;
        let sheet = sheet.expect("this node has the sender");
        sheet.clone().expect("it was waited for")
    }

    async fn do_leave(&self, limit: Duration) -> DrainReport {
        let began = self.clock.monotonic();
        self.health.set(State::Draining);
        let farewell = ConnectionDrain::of(self);
        self.leaving.cancel();
        tracing::info!(event = "node.draining", limit_s = limit.as_secs());
        let mut hooks = std::mem::take(&mut *self.hooks.lock());
        // Clients reconnect to other nodes after all hooks have run.
        hooks.extend(farewell.hooks(self, limit));
        if let Some(paired) = &self.paired
            && tokio::time::timeout(limit, paired.leave()).await.is_err()
        {
            tracing::warn!(event = "region.leave_cut_off");
        }
        let lost = self.volatile.unreplicated_partitions();
        // From now on the other nodes take over the partitions that this one releases.
        if let Some(cluster) = &self.cluster {
            cluster.leave().await;
        }
        let DrainSummary {
            moved,
            left,
            completed,
            cut_off,
        } = self.runtime.drain(hooks, limit).await;
        if let Some(cluster) = &self.cluster {
            cluster.finish_leaving().await;
        }
        self.hosts.lock().clear();
        let took = self.clock.monotonic().saturating_sub(began);
        let (clients, dropped) = farewell.count();
        let unanswered = farewell.unanswered();
        tracing::info!(
            event = "node.drained",
            moved,
            completed,
            cut_off,
            left,
            unanswered,
            lost
        );
        DrainReport {
            moved,
            completed,
            cut_off,
            left,
            clients,
            dropped,
            unanswered,
            lost,
            took_ms: took.as_millis() as u64,
        }
    }
}
