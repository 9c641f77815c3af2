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
use steadfast_core::task::named;
use steadfast_partition::{
    Clerk, Error as PartitionError, ErrorKind, Inquiry, Refusal, Result as PartitionResult, Router,
    Transport as _,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::attach::Attach;
use crate::error::{Error, Kind, Result};
use crate::live::{Cut, Live, Seat, Spot};
use crate::place::{self, SLOT};
use crate::position::Position;

/// How long a lease lives without a poll.
const SILENCE: Duration = Duration::from_secs(5);

/// Delay before a failed request to the owner is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// The registration of a reader, sent by its node.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct Sitter {
    /// The id of the lease, chosen by the reader's node.
    #[n(0)]
    chair: String,
    #[n(1)]
    spot: Named,
    #[n(2)]
    name: String,
    #[n(3)]
    epoch: Option<i64>,
    #[n(4)]
    owner: Option<String>,
    /// It held a lease at a previous owner.
    #[n(5)]
    is_back: bool,
}

/// A [`Spot`] in wire form.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct Named {
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
struct Reason {
    #[n(0)]
    code: String,
    #[n(1)]
    words: String,
}

/// A request to the owner of a partition.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum Asked {
    #[n(0)]
    Sit(Sitter),
    /// Waits until the lease ends.
    #[n(1)]
    Wait(String),
    #[n(2)]
    Leave(String),
    /// The partition was claimed: version and owner, if the claim is to be recorded.
    #[n(3)]
    Claimed {
        #[n(0)]
        spot: Named,
        #[n(1)]
        version: Option<u64>,
        #[n(2)]
        owner: String,
        #[n(3)]
        why: Reason,
    },
    /// Disconnects all readers of an event hub, or of one group.
    #[n(4)]
    Gone {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: Option<String>,
        #[n(2)]
        why: Reason,
    },
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum Told {
    /// The request succeeded, or the wait timed out.
    #[n(0)]
    Fine,
    /// There is no such lease.
    #[n(1)]
    Unknown,
    #[n(2)]
    Cut(Reason),
}

impl From<&Spot> for Named {
    fn from(spot: &Spot) -> Self {
        Self {
            hub: spot.hub,
            group: spot.group.to_string(),
            partition: spot.partition,
        }
    }
}

impl From<Named> for Spot {
    fn from(named: Named) -> Self {
        Self {
            hub: named.hub,
            group: named.group.into(),
            partition: named.partition,
        }
    }
}

impl From<&Error> for Reason {
    fn from(error: &Error) -> Self {
        Self {
            code: error.kind().code().0.to_owned(),
            words: error.message().to_owned(),
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        let kind = Kind::named(&reason.code).unwrap_or(Kind::Displaced);
        Self::new(kind, reason.words)
    }
}

/// The reader leases of the partitions that this node owns.
pub(crate) struct Chairs {
    live: Arc<Live>,
    /// Weak, because the router owns this handler.
    router: Weak<Router>,
    changes: watch::Receiver<u64>,
    all: Arc<Mutex<HashMap<String, Arc<Chair>>>>,
}

struct Chair {
    seat: Seat,
    /// Concurrent polls: one, or briefly none.
    waiting: AtomicUsize,
    heard: Mutex<Instant>,
}

/// A poll of a lease.
struct Waiter<'a>(&'a Chair);

impl<'a> Waiter<'a> {
    fn at(chair: &'a Chair) -> Self {
        chair.waiting.fetch_add(1, Ordering::SeqCst);
        Self(chair)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        *self.0.heard.lock() = Instant::now();
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Chairs {
    pub(crate) fn new(
        live: Arc<Live>,
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

    fn sit(&self, sitter: Sitter) -> Result<()> {
        if self.all.lock().contains_key(&sitter.chair) {
            return Ok(());
        }
        let attach = Attach {
            name: sitter.name,
            epoch: sitter.epoch,
            start: Position::Latest,
            owner: sitter.owner,
        };
        let spot = Spot::from(sitter.spot);
        let seat = self.live.attach(spot, &attach, sitter.is_back)?;
        let chair = Arc::new(Chair {
            seat,
            waiting: AtomicUsize::new(0),
            heard: Mutex::new(Instant::now()),
        });
        let id = sitter.chair;
        self.all.lock().insert(id.clone(), chair);
        tokio::spawn(named(watch_over(Arc::clone(&self.all), id)));
        Ok(())
    }

    /// Waits until a reader is disconnected.
    async fn wait(&self, partition: Partition, id: &str) -> PartitionResult<Told> {
        let chair = self.all.lock().get(id).cloned();
        let Some(chair) = chair else {
            return Ok(Told::Unknown);
        };
        let waiter = Waiter::at(&chair);
        let mut changes = self.changes.clone();
        let is_moved = async {
            let is_here = |router: Arc<Router>| router.door(partition).is_some();
            while self.router.upgrade().is_some_and(is_here) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let told = tokio::select! {
            why = chair.seat.cut.wait() => Told::Cut(Reason::from(&why)),
            () = tokio::time::sleep(limits::FOLLOW_TIME) => return Ok(Told::Fine),
            () = is_moved => {
                // The retry reaches the next owner, which does not know the lease.
                self.all.lock().remove(id);
                return Err(PartitionError::new(ErrorKind::NotOwner { partition }));
            }
        };
        drop(waiter);
        self.all.lock().remove(id);
        Ok(told)
    }
}

/// Drops a lease that is no longer polled.
async fn watch_over(all: Arc<Mutex<HashMap<String, Arc<Chair>>>>, id: String) {
    loop {
        tokio::time::sleep(SILENCE).await;
        let mut all = all.lock();
        let Some(chair) = all.get(&id) else { return };
        let is_silent = chair.heard.lock().elapsed() >= SILENCE;
        if chair.waiting.load(Ordering::SeqCst) == 0 && is_silent {
            all.remove(&id);
            return;
        }
    }
}

#[async_trait]
impl Clerk for Chairs {
    async fn answer(&self, partition: Partition, request: Bytes) -> PartitionResult<Bytes> {
        let what = "a request for readers";
        let asked = place::decode::<Asked>(&request);
        let asked = asked.map_err(|_| PartitionError::new(ErrorKind::Malformed { what }))?;
        let refused = |error: Error| PartitionError::new(ErrorKind::Refused(Refusal::from(error)));
        let told = match asked {
            Asked::Sit(sitter) => {
                self.sit(sitter).map_err(refused)?;
                Told::Fine
            }
            Asked::Wait(id) => self.wait(partition, &id).await?,
            Asked::Leave(id) => {
                self.all.lock().remove(&id);
                Told::Fine
            }
            Asked::Claimed {
                spot,
                version,
                owner,
                why,
            } => {
                let claim = version.map(|version| (version, owner.as_str()));
                self.live.claimed(&spot.into(), claim, &why.into());
                Told::Fine
            }
            Asked::Gone { hub, group, why } => {
                self.live.cut_all(hub, group.as_deref(), &why.into());
                Told::Fine
            }
        };
        Ok(place::encode(&told))
    }
}

/// Requests to the owner about the readers of one partition.
#[derive(Clone)]
pub(crate) struct Usher {
    pub(crate) router: Arc<Router>,
    pub(crate) place: Partition,
}

impl Usher {
    async fn ask(&self, asked: &Asked) -> Result<Told> {
        let inquiry = Inquiry {
            kind: SLOT,
            body: place::encode(asked),
            // All requests are idempotent.
            is_repeatable: true,
        };
        let told = self.router.ask(self.place, inquiry).await?;
        place::decode(&told).map_err(|_| Error::damaged("a reply"))
    }

    /// Acquires a lease for a reader at the owner.
    pub(crate) async fn seat(self, spot: &Spot, attach: &Attach) -> Result<Sitting> {
        let mut sitter = Sitter {
            chair: format!("{:032x}", fastrand::u128(..)),
            spot: Named::from(spot),
            name: attach.name.clone(),
            epoch: attach.epoch,
            owner: attach.owner.clone(),
            is_back: false,
        };
        self.ask(&Asked::Sit(sitter.clone())).await?;
        sitter.is_back = true;
        let cut = Arc::new(Cut::new());
        let chair = sitter.chair.clone();
        let task = tokio::spawn(named(stay(self.clone(), sitter, Arc::clone(&cut))));
        Ok(Sitting {
            usher: self,
            chair,
            cut,
            task: task.abort_handle(),
        })
    }

    /// Reports a claim of the partition to the owner.
    pub(crate) async fn claimed(
        &self,
        spot: &Spot,
        claim: Option<(u64, &str)>,
        why: &Error,
    ) -> Result<()> {
        let asked = Asked::Claimed {
            spot: Named::from(spot),
            version: claim.map(|(version, _)| version),
            owner: claim.map_or(String::new(), |(_, owner)| owner.to_owned()),
            why: Reason::from(why),
        };
        self.ask(&asked).await.map(drop)
    }

    /// Has the owner disconnect all readers of an event hub, or of a group.
    pub(crate) async fn gone(&self, hub: u64, group: Option<&str>, why: &Error) -> Result<()> {
        let asked = Asked::Gone {
            hub,
            group: group.map(str::to_owned),
            why: Reason::from(why),
        };
        self.ask(&asked).await.map(drop)
    }
}

/// A reader's lease at the owner of its partition, released on drop.
pub(crate) struct Sitting {
    usher: Usher,
    chair: String,
    pub(crate) cut: Arc<Cut>,
    task: AbortHandle,
}

impl Drop for Sitting {
    fn drop(&mut self) {
        self.task.abort();
        let (usher, chair) = (self.usher.clone(), self.chair.clone());
        // A lease that cannot be released expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { usher.ask(&Asked::Leave(chair)).await.map(drop) });
        }
    }
}

/// Polls the lease until the reader is disconnected.
async fn stay(usher: Usher, sitter: Sitter, cut: Arc<Cut>) {
    loop {
        let told = match usher.ask(&Asked::Wait(sitter.chair.clone())).await {
            Ok(Told::Unknown) => usher.ask(&Asked::Sit(sitter.clone())).await,
            told => told,
        };
        match told {
            Ok(Told::Cut(why)) => return cut.cut(why.into()),
            Ok(_) => {}
            // A node that cannot reach the owner cannot read either.
            Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
            Err(error) => return cut.cut(error),
        }
    }
}
