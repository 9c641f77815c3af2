//! The faults that a test can inject.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::node::{TimeError as Error, TimeErrorKind as ErrorKind};

/// A fault of one commit.
///
/// ```
/// use steadfast::testing::Fault;
///
/// assert_eq!("disk-full".parse(), Ok(Fault::DiskFull));
/// assert_eq!(Fault::CrashAfterCommit.to_string(), "crash-after-commit");
/// let unknown = "earthquake".parse::<Fault>().unwrap_err();
/// assert_eq!(unknown.code().0, "STF-7074");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// `disk-full`: the disk refuses the commit, and nothing is written. Callers get an
    /// error; a retry succeeds, such as that of
    /// [`ServicePartition::transact`](crate::ServicePartition::transact).
    DiskFull,
    /// `slow-disk`: the commit takes half a second of real time.
    SlowDisk,
    /// `answer-lost`: the commit is durable, but its answer is lost. The store finds out;
    /// callers notice nothing.
    AnswerLost,
    /// `commit-lost`: the commit is not durable, and its answer is lost. The store finds out
    /// and repeats it; callers notice nothing.
    CommitLost,
    /// `owner-lost`: another owner takes the partition before the commit, which is refused;
    /// callers get an error. The node takes the partition back; open services again.
    OwnerLost,
    /// `crash-before-commit`: the process ends before anything of the commit is written;
    /// continue with [`TestNode::restart`](super::TestNode::restart).
    CrashBeforeCommit,
    /// `crash-after-commit`: the commit is durable, and the process ends before any caller
    /// learns of it; continue with [`TestNode::restart`](super::TestNode::restart).
    CrashAfterCommit,
}

impl Fault {
    /// All faults.
    ///
    /// ```
    /// use steadfast::testing::Fault;
    ///
    /// for fault in Fault::ALL {
    ///     assert_eq!(fault.name().parse(), Ok(fault));
    /// }
    /// ```
    pub const ALL: [Self; 7] = [
        Self::DiskFull,
        Self::SlowDisk,
        Self::AnswerLost,
        Self::CommitLost,
        Self::OwnerLost,
        Self::CrashBeforeCommit,
        Self::CrashAfterCommit,
    ];

    /// Its name.
    ///
    /// ```
    /// assert_eq!(steadfast::testing::Fault::SlowDisk.name(), "slow-disk");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::DiskFull => "disk-full",
            Self::SlowDisk => "slow-disk",
            Self::AnswerLost => "answer-lost",
            Self::CommitLost => "commit-lost",
            Self::OwnerLost => "owner-lost",
            Self::CrashBeforeCommit => "crash-before-commit",
            Self::CrashAfterCommit => "crash-after-commit",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.ok_or_else(|| {
            Error::new(ErrorKind::UnknownFault {
                name: name.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            })
        })
    }
}

/// Injects faults into a [`TestNode`](super::TestNode). Clones inject into the same node.
///
/// ```
/// use steadfast::testing::{Fault, TestNode};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let world = TestNode::builder().start().await?;
/// let bank = world.node().singleton("bank").await?;
/// let accounts = bank.dictionary::<String, i64>("accounts").await?;
/// let deposit = async || {
///     let deposit = bank.transact(async |mut tx| {
///         accounts.set(&mut tx, "alice", 100).await?;
///         tx.commit(()).await
///     });
///     deposit.await
/// };
///
/// world.faults().inject(Fault::DiskFull);
/// deposit().await?; // `transact` tries again, and the disk has room
///
/// world.faults().inject(Fault::CrashBeforeCommit);
/// let unknown = deposit().await.unwrap_err();
/// assert_eq!(unknown.code().0, "STF-3013");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    shared: Arc<FaultState>,
}

struct FaultState {
    next: Mutex<VecDeque<Fault>>,
    /// Counts crashes.
    crashes: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn new() -> Self {
        let shared = FaultState {
            next: Mutex::default(),
            crashes: watch::channel(0).0,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Lets the next commit of the node fail in this way. Faults that are injected before
    /// it strike the commits after it, one each. Commits in the background count too; after
    /// [`TestNode::settle`](super::TestNode::settle) there are none until a caller comes or
    /// time passes.
    ///
    /// See [`Faults`] for an example.
    pub fn inject(&self, fault: Fault) {
        self.shared.next.lock().push_back(fault);
    }

    /// The faults that have not struck yet.
    ///
    /// ```
    /// use steadfast::testing::{Fault, TestNode};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = TestNode::builder().start().await?;
    /// world.faults().inject("slow-disk".parse()?);
    /// assert_eq!(world.faults().waiting(), [Fault::SlowDisk]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn waiting(&self) -> Vec<Fault> {
        self.shared.next.lock().iter().copied().collect()
    }

    /// Removes the faults that have not struck yet.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use steadfast::testing::{Fault, TestNode};
    /// let world = TestNode::builder().start().await?;
    /// world.faults().inject(Fault::OwnerLost);
    /// world.faults().clear();
    /// assert!(world.faults().waiting().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) {
        self.shared.next.lock().clear();
    }

    /// The fault of the next commit.
    pub(super) fn strike(&self) -> Option<Fault> {
        self.shared.next.lock().pop_front()
    }

    /// The process ends.
    pub(super) fn crash(&self) {
        self.shared.crashes.send_modify(|count| *count += 1);
    }

    /// Changes when the process has ended by a fault.
    pub(super) fn crashes(&self) -> watch::Receiver<u64> {
        self.shared.crashes.subscribe()
    }
}
