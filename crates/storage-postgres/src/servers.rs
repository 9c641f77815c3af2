//! Which server takes writes.
//!
//! All servers are probed in parallel, because a frozen one accepts connections and
//! says nothing, and a resumed one claims to be the primary. The primary is the
//! writable one with the highest timeline; a timeline lower than one already seen
//! is never accepted.

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};
use tokio::sync::watch;

use crate::error::{ErrorKind, is_unsafe};
use crate::options::{Durability, Options, Target};
use crate::safety;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

/// The first and the longest time-out of a probe.
const PROBE: Duration = Duration::from_millis(700);
const LONG_PROBE: Duration = Duration::from_secs(4);

/// The servers of one address.
pub(crate) struct Servers {
    pub(crate) targets: Vec<Target>,
    pub(crate) options: Options,
    known: Mutex<KnownServers>,
    /// The highest timeline that was seen.
    newest: watch::Sender<u32>,
}

/// What was learned so far.
#[derive(Default)]
struct KnownServers {
    primary: Option<usize>,
    cluster: Option<String>,
}

impl Servers {
    pub(crate) fn new(options: Options) -> Result<Self> {
        let cluster = options.cluster.clone();
        Ok(Self {
            targets: options.targets()?,
            options,
            known: Mutex::new(KnownServers {
                cluster,
                ..KnownServers::default()
            }),
            newest: watch::channel(0).0,
        })
    }

    /// The highest timeline that was seen.
    pub(crate) fn timeline(&self) -> u32 {
        *self.newest.borrow()
    }

    /// Waits for the answer of a server until another one is known to be the primary: a
    /// frozen one would never answer.
    pub(crate) async fn while_newest<T>(
        &self,
        timeline: u32,
        work: impl Future<Output = std::result::Result<T, StatementError>>,
    ) -> std::result::Result<T, StatementError> {
        let mut newest = self.newest.subscribe();
        tokio::select! {
            done = work => done,
            // The sender lives as long as this.
            _ = newest.wait_for(|newest| *newest > timeline) => {
                Err(StatementError::unknown("another server is the primary by now"))
            }
        }
    }

    /// The cluster that must be found, once it is known.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.known.lock().cluster.clone()
    }

    /// From now on only this cluster will do.
    pub(crate) fn expect_cluster(&self, cluster: &str) {
        self.known.lock().cluster = Some(cluster.to_string());
    }

    /// Connects to one server, whatever it is.
    pub(crate) async fn open(&self, host: usize) -> std::result::Result<Session, StatementError> {
        let has_timeline = self.options.durability != Durability::Provider;
        Session::open(
            &self.targets[host],
            host,
            &self.options.schema,
            has_timeline,
        )
        .await
    }

    /// A session with the primary; looks for it as long as `patience` allows. Right
    /// after a failover a manager may still be setting it up, so an unsafe one is
    /// waited for, too.
    pub(crate) async fn connect(&self, patience: Duration) -> Result<Session> {
        self.search(patience, false).await
    }

    /// As [`Servers::connect`], but an unsafe primary is refused at once.
    pub(crate) async fn connect_strictly(&self, patience: Duration) -> Result<Session> {
        self.search(patience, true).await
    }

    async fn search(&self, patience: Duration, is_strict: bool) -> Result<Session> {
        let mut probe = PROBE;
        let what = String::from("no server was asked");
        let mut seen = Error::new(StorageKind::Unreachable { what });
        let search = async {
            loop {
                match self.find(probe).await {
                    Ok(session) => match self.check(&session).await {
                        Ok(()) => return Ok(session),
                        Err(error) if is_strict || !is_passing(&error) => return Err(error),
                        Err(error) => seen = error,
                    },
                    Err(ConnectError::Denied(error)) => return Err(error),
                    Err(ConnectError::Yet(what)) => {
                        seen = Error::new(StorageKind::Unreachable { what })
                    }
                }
                probe = (probe * 2).min(LONG_PROBE);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        match tokio::time::timeout(patience, search).await {
            Ok(found) => found,
            Err(_) => Err(seen),
        }
    }

    async fn check(&self, session: &Session) -> Result<()> {
        let checks = async {
            safety::check(session, self.options.durability).await?;
            self.check_cluster(session)
                .await
                .map_err(StatementError::Ours)
        };
        within(LONG_PROBE, checks)
            .await
            .map_err(|fault| fault.into_error("show its settings"))
    }

    async fn find(&self, probe: Duration) -> std::result::Result<Session, ConnectError> {
        let (primary, timeline) = (self.known.lock().primary, self.timeline());
        if let Some(host) = primary {
            if let Ok(session) = within(probe, self.open(host)).await
                && session.is_writable
                && session.timeline >= timeline
            {
                return Ok(self.learn(session));
            }
            self.known.lock().primary = None;
        }
        let probes = (0..self.targets.len()).map(|host| within(probe, self.open(host)));
        let answers = join_all(probes).await;
        self.choose(answers, timeline)
    }

    fn choose(
        &self,
        answers: Vec<std::result::Result<Session, StatementError>>,
        timeline: u32,
    ) -> std::result::Result<Session, ConnectError> {
        let mut reasons = Vec::new();
        let mut denied = None;
        let mut best: Option<Session> = None;
        for (target, answer) in self.targets.iter().zip(answers) {
            match answer {
                Ok(session) if !session.is_writable => {
                    reasons.push(format!("{} is a standby", target.name));
                }
                Ok(session) if session.timeline < timeline => {
                    reasons.push(format!("{} is an old primary", target.name));
                }
                Ok(session) => {
                    let is_better = best.as_ref().is_none_or(|b| b.timeline < session.timeline);
                    if is_better {
                        best = Some(session);
                    }
                }
                Err(StatementError::Refused(cause)) => {
                    let host = target.name.clone();
                    denied = Some(Error::caused(ErrorKind::AccessDenied { host }, cause));
                }
                Err(StatementError::Ours(error)) => denied = Some(error),
                Err(fault) => {
                    let fault = fault.into_error("say what it is");
                    let cause = std::error::Error::source(&fault);
                    let cause = cause.map_or_else(|| fault.to_string(), ToString::to_string);
                    reasons.push(format!("{}: {cause}", target.name));
                }
            }
        }
        match (best, denied) {
            (Some(session), _) => Ok(self.learn(session)),
            (None, Some(error)) => Err(ConnectError::Denied(error)),
            (None, None) => Err(ConnectError::Yet(reasons.join(", "))),
        }
    }

    fn learn(&self, session: Session) -> Session {
        self.known.lock().primary = Some(session.host);
        self.newest.send_if_modified(|newest| {
            let is_newer = session.timeline > *newest;
            *newest = session.timeline.max(*newest);
            is_newer
        });
        session
    }

    async fn check_cluster(&self, session: &Session) -> Result<()> {
        let Some(expected) = self.cluster() else {
            return Ok(());
        };
        let found = match safety::cluster(session).await? {
            Some(found) => found,
            // A new database takes the identity that it is given.
            None => return Ok(()),
        };
        if found == expected {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::ForeignCluster { found, expected }))
        }
    }
}

/// Whether the error of a primary may pass while the caller waits.
fn is_passing(error: &Error) -> bool {
    is_unsafe(error) || matches!(error.kind(), StorageKind::Interrupted { .. })
}

/// Why there is no session.
enum ConnectError {
    /// A retry cannot help.
    Denied(Error),
    /// A retry may help.
    Yet(String),
}
