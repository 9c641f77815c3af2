//! Votes that survive their voter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_storage::mirror::{Ask, Ballot, Say, TTL, Voter, read_record, write_record};
use steadfast_storage::{Engine, Error as StorageError};
use tokio::sync::Mutex;

/// The votes of one server, by space. A verdict is durable before it is said.
pub struct Polls {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    started: Duration,
    voters: Mutex<BTreeMap<String, Station>>,
}

struct Station {
    voter: Voter,
    /// The server wants the seat itself: nobody else is promised it meanwhile.
    is_held: bool,
}

/// Spaces that one server votes on, at most.
const SPACES: usize = 256;

/// In front of the records: lease keys and epochs.
const PREFIX: &str = "region/vote/";

impl Polls {
    /// Keeps votes in the records of an engine. The clock must count sleep.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        Self {
            engine,
            started: clock.monotonic(),
            clock,
            voters: Mutex::default(),
        }
    }

    async fn station<'a>(
        &self,
        voters: &'a mut BTreeMap<String, Station>,
        space: &str,
    ) -> Result<Option<&'a mut Station>, StorageError> {
        if !voters.contains_key(space) {
            if voters.len() >= SPACES || space.len() > 200 {
                return Ok(None);
            }
            let record = read_record(&*self.engine, &key(space)).await?;
            let ballot = record.and_then(|record| Ballot::decode(record).ok());
            let voter = Voter::new(ballot.unwrap_or_default(), self.started, TTL);
            let station = Station {
                voter,
                is_held: false,
            };
            voters.insert(space.to_owned(), station);
        }
        Ok(voters.get_mut(space))
    }

    /// Votes on what somebody else asks for; `None` if there are too many spaces.
    pub async fn vote(&self, space: &str, ask: &Ask) -> Result<Option<Say>, StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(None);
        };
        let now = self.clock.monotonic();
        if station.is_held {
            let ballot = station.voter.ballot().clone();
            let left = Duration::ZERO;
            return Ok(Some(Say::Refused { ballot, left }));
        }
        let verdict = station.voter.decide(ask, now);
        if let Some(next) = &verdict.next {
            write_record(&*self.engine, &key(space), next.encode()).await?;
        }
        station.voter.adopt(&verdict);
        Ok(Some(verdict.say))
    }

    /// How it stands, and for how long the owner is promised the seat.
    pub async fn look(&self, space: &str) -> Result<(Ballot, Duration), StorageError> {
        let mut voters = self.voters.lock().await;
        let station = self.station(&mut voters, space).await?;
        let now = self.clock.monotonic();
        Ok(station.map_or_else(
            || (Ballot::default(), Duration::MAX),
            |station| (station.voter.ballot().clone(), station.voter.left(now)),
        ))
    }

    /// Promises nothing to others for a while, if `me` may have the seat as far as this
    /// voter is concerned; answers how it stands then.
    pub(super) async fn hold(&self, space: &str, me: &str) -> Result<Option<Ballot>, StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(None);
        };
        let ballot = station.voter.ballot().clone();
        let is_free = station.voter.left(self.clock.monotonic()) == Duration::ZERO;
        station.is_held = is_free || ballot.owner == me;
        Ok(station.is_held.then_some(ballot))
    }

    /// Ends that, and keeps what the server has become.
    pub(super) async fn let_go(
        &self,
        space: &str,
        next: Option<Ballot>,
    ) -> Result<(), StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(());
        };
        if let Some(next) = next {
            let bytes: Bytes = next.encode();
            write_record(&*self.engine, &key(space), bytes).await?;
            station.voter = Voter::new(next, self.clock.monotonic(), TTL);
        }
        station.is_held = false;
        Ok(())
    }
}

fn key(space: &str) -> String {
    format!("{PREFIX}{space}")
}
