//! Cluster-wide reader leases, at the partition owners.
//!
//! Every reader, at any node, holds a lease at the owner of its partition, where
//! epochs and claims are compared. The reader's node long-polls the owner for a
//! disconnect; the owner drops a lease that is not polled for [`SILENCE`]. When the
//! partition moves, its readers acquire leases at the new owner; of several readers
//! with the same epoch, the first one there stays.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_collections::schema::Record;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{
    Error as PartitionError, ErrorKind as PartitionErrorKind, NodeTransport as _, OwnerHandler,
    OwnerRequest, Result as PartitionResult, Router, ServiceError,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::keys::{self, HUB_PARTITION};
use crate::position::EventPosition;
use crate::reader_options::ReaderOptions;
use crate::reader_registry::{DisconnectSignal, ReaderGuard, ReaderKey, ReaderRegistry};

/// How long a lease lives without a poll.
const SILENCE: Duration = Duration::from_secs(5);

/// Delay before a failed request to the owner is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// The registration of a reader, sent by its node.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct ReaderRegistration {
    /// The id of the lease, chosen by the reader's node.
    #[n(0)]
    lease: String,
    #[n(1)]
    key: ReaderKeyRecord,
    #[n(2)]
    name: String,
    #[n(3)]
    epoch: Option<i64>,
    #[n(4)]
    owner: Option<String>,
    /// It held a lease at a previous owner.
    #[n(5)]
    is_moved: bool,
}

/// A [`ReaderKey`] in wire form.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct ReaderKeyRecord {
    #[n(0)]
    hub: u64,
    #[n(1)]
    group: String,
    #[n(2)]
    partition: u32,
}

/// Why a reader is disconnected.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct DisconnectReason {
    #[n(0)]
    code: String,
    #[n(1)]
    words: String,
}

/// A request to the owner of a partition.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum ReaderRequest {
    #[n(0)]
    Acquire(ReaderRegistration),
    /// Waits until the lease ends.
    #[n(1)]
    Wait(String),
    #[n(2)]
    Release(String),
    /// The partition was claimed: version and owner, if the claim is to be recorded.
    #[n(3)]
    OwnerChanged {
        #[n(0)]
        spot: ReaderKeyRecord,
        #[n(1)]
        version: Option<u64>,
        #[n(2)]
        owner: String,
        #[n(3)]
        why: DisconnectReason,
    },
    /// Disconnects all readers of an event hub, or of one group.
    #[n(4)]
    Disconnect {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: Option<String>,
        #[n(2)]
        why: DisconnectReason,
    },
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum ReaderResponse {
    /// The request succeeded, or the wait timed out.
    #[n(0)]
    Done,
    /// There is no such lease.
    #[n(1)]
    Unknown,
    #[n(2)]
    Cut(DisconnectReason),
}

impl From<&ReaderKey> for ReaderKeyRecord {
    fn from(spot: &ReaderKey) -> Self {
        Self {
            hub: spot.hub,
            group: spot.group.to_string(),
            partition: spot.partition,
        }
    }
}

impl From<ReaderKeyRecord> for ReaderKey {
    fn from(named: ReaderKeyRecord) -> Self {
        Self {
            hub: named.hub,
            group: named.group.into(),
            partition: named.partition,
        }
    }
}

impl From<&Error> for DisconnectReason {
    fn from(error: &Error) -> Self {
        Self {
            code: error.kind().code().0.to_owned(),
            words: error.message().to_owned(),
        }
    }
}

impl From<DisconnectReason> for Error {
    fn from(reason: DisconnectReason) -> Self {
        let kind = ErrorKind::with_code(&reason.code).unwrap_or(ErrorKind::Displaced);
        Self::new(kind, reason.words)
    }
}

/// The reader leases of the partitions that this node owns.
pub(crate) struct ReaderLeases {
    live: Arc<ReaderRegistry>,
    /// Weak, because the router owns this handler.
    router: Weak<Router>,
    changes: watch::Receiver<u64>,
    all: Arc<Mutex<HashMap<String, Arc<ReaderLease>>>>,
}

struct ReaderLease {
    guard: ReaderGuard,
    /// Concurrent polls: one, or briefly none.
    waiting: AtomicUsize,
    last_wait: Mutex<Instant>,
}

/// A poll of a lease.
struct LeaseWaiter<'a>(&'a ReaderLease);

impl<'a> LeaseWaiter<'a> {
    fn at(chair: &'a ReaderLease) -> Self {
        chair.waiting.fetch_add(1, Ordering::SeqCst);
        Self(chair)
    }
}

impl Drop for LeaseWaiter<'_> {
    fn drop(&mut self) {
        *self.0.last_wait.lock() = Instant::now();
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReaderLeases {
    pub(crate) fn new(
        live: Arc<ReaderRegistry>,
        router: &Arc<Router>,
        changes: watch::Receiver<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            live,
            router: Arc::downgrade(router),
            changes,
            all: Arc::default(),
        })
    }

    fn acquire(&self, sitter: ReaderRegistration) -> Result<()> {
        if self.all.lock().contains_key(&sitter.lease) {
            return Ok(());
        }
        let attach = ReaderOptions {
            name: sitter.name,
            epoch: sitter.epoch,
            start: EventPosition::Latest,
            owner: sitter.owner,
        };
        let spot = ReaderKey::from(sitter.key);
        let seat = self.live.attach(spot, &attach, sitter.is_moved)?;
        let chair = Arc::new(ReaderLease {
            guard: seat,
            waiting: AtomicUsize::new(0),
            last_wait: Mutex::new(Instant::now()),
        });
        let id = sitter.lease;
        self.all.lock().insert(id.clone(), chair);
        tokio::spawn(name_task(expire_when_silent(Arc::clone(&self.all), id)));
        Ok(())
    }

    /// Waits until a reader is disconnected.
    async fn wait(&self, partition: Partition, id: &str) -> PartitionResult<ReaderResponse> {
        let chair = self.all.lock().get(id).cloned();
        let Some(chair) = chair else {
            return Ok(ReaderResponse::Unknown);
        };
        let waiter = LeaseWaiter::at(&chair);
        let mut changes = self.changes.clone();
        let is_moved = async {
            let is_here = |router: Arc<Router>| router.mailbox(partition).is_some();
            while self.router.upgrade().is_some_and(is_here) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let told = tokio::select! {
            why = chair.guard.cut.wait() => ReaderResponse::Cut(DisconnectReason::from(&why)),
            () = tokio::time::sleep(limits::FOLLOW_TIME) => return Ok(ReaderResponse::Done),
            () = is_moved => {
                // The retry reaches the next owner, which does not know the lease.
                self.all.lock().remove(id);
                return Err(PartitionError::new(PartitionErrorKind::NotOwner { partition }));
            }
        };
        drop(waiter);
        self.all.lock().remove(id);
        Ok(told)
    }
}

/// Drops a lease that is no longer polled.
async fn expire_when_silent(all: Arc<Mutex<HashMap<String, Arc<ReaderLease>>>>, id: String) {
    loop {
        tokio::time::sleep(SILENCE).await;
        let mut all = all.lock();
        let Some(chair) = all.get(&id) else { return };
        let is_silent = chair.last_wait.lock().elapsed() >= SILENCE;
        if chair.waiting.load(Ordering::SeqCst) == 0 && is_silent {
            all.remove(&id);
            return;
        }
    }
}

#[async_trait]
impl OwnerHandler for ReaderLeases {
    async fn handle(&self, partition: Partition, request: Bytes) -> PartitionResult<Bytes> {
        let what = "a request for readers";
        let asked = keys::decode::<ReaderRequest>(&request);
        let asked =
            asked.map_err(|_| PartitionError::new(PartitionErrorKind::Malformed { what }))?;
        let refused = |error: Error| {
            PartitionError::new(PartitionErrorKind::Refused(ServiceError::from(error)))
        };
        let told = match asked {
            ReaderRequest::Acquire(sitter) => {
                self.acquire(sitter).map_err(refused)?;
                ReaderResponse::Done
            }
            ReaderRequest::Wait(id) => self.wait(partition, &id).await?,
            ReaderRequest::Release(id) => {
                self.all.lock().remove(&id);
                ReaderResponse::Done
            }
            ReaderRequest::OwnerChanged {
                spot,
                version,
                owner,
                why,
            } => {
                let claim = version.map(|version| (version, owner.as_str()));
                self.live.owner_changed(&spot.into(), claim, &why.into());
                ReaderResponse::Done
            }
            ReaderRequest::Disconnect { hub, group, why } => {
                self.live.disconnect_all(hub, group.as_deref(), &why.into());
                ReaderResponse::Done
            }
        };
        Ok(keys::encode(&told))
    }
}

/// Requests to the owner about the readers of one partition.
#[derive(Clone)]
pub(crate) struct ReaderLeaseClient {
    pub(crate) router: Arc<Router>,
    pub(crate) place: Partition,
}

impl ReaderLeaseClient {
    async fn ask(&self, asked: &ReaderRequest) -> Result<ReaderResponse> {
        let inquiry = OwnerRequest {
            kind: HUB_PARTITION,
            body: keys::encode(asked),
            // All requests are idempotent.
            is_repeatable: true,
        };
        let told = self.router.request(self.place, inquiry).await?;
        keys::decode(&told).map_err(|_| Error::damaged("a reply"))
    }

    /// Acquires a lease for a reader at the owner.
    pub(crate) async fn acquire(
        self,
        spot: &ReaderKey,
        attach: &ReaderOptions,
    ) -> Result<RemoteReaderGuard> {
        let mut sitter = ReaderRegistration {
            lease: format!("{:032x}", fastrand::u128(..)),
            key: ReaderKeyRecord::from(spot),
            name: attach.name.clone(),
            epoch: attach.epoch,
            owner: attach.owner.clone(),
            is_moved: false,
        };
        self.ask(&ReaderRequest::Acquire(sitter.clone())).await?;
        sitter.is_moved = true;
        let cut = Arc::new(DisconnectSignal::new());
        let chair = sitter.lease.clone();
        let task = tokio::spawn(name_task(maintain(self.clone(), sitter, Arc::clone(&cut))));
        Ok(RemoteReaderGuard {
            client: self,
            lease: chair,
            cut,
            task: task.abort_handle(),
        })
    }

    /// Reports a claim of the partition to the owner.
    pub(crate) async fn owner_changed(
        &self,
        spot: &ReaderKey,
        claim: Option<(u64, &str)>,
        why: &Error,
    ) -> Result<()> {
        let asked = ReaderRequest::OwnerChanged {
            spot: ReaderKeyRecord::from(spot),
            version: claim.map(|(version, _)| version),
            owner: claim.map_or(String::new(), |(_, owner)| owner.to_owned()),
            why: DisconnectReason::from(why),
        };
        self.ask(&asked).await.map(drop)
    }

    /// Has the owner disconnect all readers of an event hub, or of a group.
    pub(crate) async fn disconnect_all(
        &self,
        hub: u64,
        group: Option<&str>,
        why: &Error,
    ) -> Result<()> {
        let asked = ReaderRequest::Disconnect {
            hub,
            group: group.map(str::to_owned),
            why: DisconnectReason::from(why),
        };
        self.ask(&asked).await.map(drop)
    }
}

/// A reader's lease at the owner of its partition, released on drop.
pub(crate) struct RemoteReaderGuard {
    client: ReaderLeaseClient,
    lease: String,
    pub(crate) cut: Arc<DisconnectSignal>,
    task: AbortHandle,
}

impl Drop for RemoteReaderGuard {
    fn drop(&mut self) {
        self.task.abort();
        let (usher, chair) = (self.client.clone(), self.lease.clone());
        // A lease that cannot be released expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { usher.ask(&ReaderRequest::Release(chair)).await.map(drop) });
        }
    }
}

/// Polls the lease until the reader is disconnected.
async fn maintain(
    usher: ReaderLeaseClient,
    sitter: ReaderRegistration,
    cut: Arc<DisconnectSignal>,
) {
    loop {
        let told = match usher.ask(&ReaderRequest::Wait(sitter.lease.clone())).await {
            Ok(ReaderResponse::Unknown) => usher.ask(&ReaderRequest::Acquire(sitter.clone())).await,
            told => told,
        };
        match told {
            Ok(ReaderResponse::Cut(why)) => return cut.disconnect(why.into()),
            Ok(_) => {}
            // A node that cannot reach the owner cannot read either.
            Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
            Err(error) => return cut.disconnect(error),
        }
    }
}
