//! Persistent votes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_core::task::name_task;
use steadfast_storage::{Engine, Error as StorageError};
use steadfast_storage_replicated::mirror::{
    Ballot, TTL, VoteRequest, VoteResponse, Voter, read_record, write_record,
};
use tokio::sync::Mutex;

/// The votes of one server, by space. A vote is durable before it is sent.
pub struct VoteStore {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    started: Duration,
    voters: Mutex<BTreeMap<String, VoterState>>,
}

struct VoterState {
    voter: Voter,
    /// The server claims the lease itself: it promises the lease to no other region
    /// until the claim ends.
    is_held: bool,
    /// The stored vote may differ from the one in memory: the outcome of a write is
    /// unknown.
    is_doubtful: bool,
}

/// Spaces that one server votes on, at most.
const SPACES: usize = 256;

/// Key prefix of the records, which hold lease keys and epochs.
const PREFIX: &str = "region/vote/";

impl VoteStore {
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
        voters: &'a mut BTreeMap<String, VoterState>,
        space: &str,
    ) -> Result<Option<&'a mut VoterState>, StorageError> {
        if !voters.contains_key(space) {
            if voters.len() >= SPACES || space.len() > 200 {
                return Ok(None);
            }
            let record = read_record(&*self.engine, &key(space)).await?;
            let ballot = record.and_then(|record| Ballot::decode(record).ok());
            let voter = Voter::new(ballot.unwrap_or_default(), self.started, TTL);
            let station = VoterState {
                voter,
                is_held: false,
                is_doubtful: false,
            };
            voters.insert(space.to_owned(), station);
        }
        Ok(voters.get_mut(space))
    }

    /// Votes on a request of another region; `None` if there are too many spaces. Runs
    /// to its end even if the caller stops waiting.
    pub async fn vote(
        self: &Arc<Self>,
        space: &str,
        ask: &VoteRequest,
    ) -> Result<Option<VoteResponse>, StorageError> {
        let (own, space, ask) = (Arc::clone(self), space.to_owned(), ask.clone());
        let voting = tokio::spawn(name_task(async move { own.vote_now(&space, &ask).await }));
        voting.await.unwrap_or(Ok(None))
    }

    async fn vote_now(
        &self,
        space: &str,
        ask: &VoteRequest,
    ) -> Result<Option<VoteResponse>, StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(None);
        };
        let now = self.clock.monotonic();
        if station.is_held {
            let ballot = station.voter.ballot().clone();
            let left = Duration::ZERO;
            return Ok(Some(VoteResponse::Refused { ballot, left }));
        }
        let verdict = station.voter.decide(ask, now);
        // A granted ballot must be the stored one.
        let same = (station.is_doubtful && verdict.response == VoteResponse::Granted)
            .then(|| station.voter.ballot().clone());
        if let Some(next) = verdict.next.clone().or(same) {
            self.keep(station, space, &next).await?;
        }
        station.voter.adopt(&verdict);
        Ok(Some(verdict.response))
    }

    async fn keep(
        &self,
        station: &mut VoterState,
        space: &str,
        next: &Ballot,
    ) -> Result<(), StorageError> {
        station.is_doubtful = true;
        write_record(&*self.engine, &key(space), next.encode()).await?;
        station.is_doubtful = false;
        Ok(())
    }

    /// The current ballot, and for how long the owner is promised the lease.
    pub async fn look(&self, space: &str) -> Result<(Ballot, Duration), StorageError> {
        let mut voters = self.voters.lock().await;
        let station = self.station(&mut voters, space).await?;
        let now = self.clock.monotonic();
        Ok(station.map_or_else(
            || (Ballot::default(), Duration::MAX),
            |station| (station.voter.ballot().clone(), station.voter.remaining(now)),
        ))
    }

    /// Promises nothing to others until [`VoteStore::let_go`], if `me` may have the lease
    /// as far as this voter is concerned; answers the current ballot.
    pub(super) async fn hold(&self, space: &str, me: &str) -> Result<Option<Ballot>, StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(None);
        };
        let ballot = station.voter.ballot().clone();
        let is_free = station.voter.remaining(self.clock.monotonic()) == Duration::ZERO;
        station.is_held = is_free || ballot.owner == me;
        Ok(station.is_held.then_some(ballot))
    }

    /// Ends a [`VoteStore::hold`], and stores the server's new ballot.
    pub(super) async fn let_go(
        &self,
        space: &str,
        next: Option<Ballot>,
    ) -> Result<(), StorageError> {
        let mut voters = self.voters.lock().await;
        let Some(station) = self.station(&mut voters, space).await? else {
            return Ok(());
        };
        station.is_held = false;
        if let Some(next) = next {
            self.keep(station, space, &next).await?;
            station.voter = Voter::new(next, self.clock.monotonic(), TTL);
        }
        Ok(())
    }
}

fn key(space: &str) -> String {
    format!("{PREFIX}{space}")
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::SystemClock;
    use steadfast_storage::memory::MemoryEngine;

    use super::*;

    fn claim(epoch: u64, owner: &str) -> VoteRequest {
        VoteRequest::Claim {
            epoch,
            owner: owner.to_owned(),
            is_first: true,
            accepts_loss: true,
        }
    }

    async fn kept(engine: &MemoryEngine) -> Ballot {
        let record = read_record(engine, &key("s")).await.unwrap();
        Ballot::decode(record.unwrap()).unwrap()
    }

    /// After a write with an unknown outcome, a granted ballot is written again.
    #[tokio::test]
    async fn a_doubtful_ballot_is_written_before_it_is_granted_again() {
        let engine = Arc::new(MemoryEngine::new());
        let polls = Arc::new(VoteStore::new(
            engine.clone(),
            Arc::new(SystemClock::default()),
        ));
        let said = polls.vote("s", &claim(1, "a")).await.unwrap();
        assert_eq!(said, Some(VoteResponse::Granted));
        let known = kept(&engine).await;
        // A claim of another region was written, but its voter never got the response.
        let other = Ballot {
            epoch: 2,
            owner: "b".to_owned(),
            ..Ballot::default()
        };
        write_record(&*engine, &key("s"), other.encode())
            .await
            .unwrap();
        let mut voters = polls.voters.lock().await;
        voters.get_mut("s").unwrap().is_doubtful = true;
        drop(voters);
        let renew = |serial| VoteRequest::Renew {
            ballot: Ballot {
                serial,
                ..known.clone()
            },
            is_agreed: false,
        };
        let said = polls.vote("s", &renew(1)).await.unwrap();
        assert_eq!(said, Some(VoteResponse::Granted));
        assert_eq!(kept(&engine).await, known, "what was granted is kept");
        assert!(!polls.voters.lock().await["s"].is_doubtful);
    }

    /// A vote completes although its request is dropped.
    #[tokio::test]
    async fn a_vote_comes_to_its_end_when_nobody_waits() {
        let engine = Arc::new(MemoryEngine::new());
        let polls = Arc::new(VoteStore::new(
            engine.clone(),
            Arc::new(SystemClock::default()),
        ));
        let ask = claim(1, "a");
        {
            let mut voting = Box::pin(polls.vote("s", &ask));
            assert!(futures_util::poll!(voting.as_mut()).is_pending());
        }
        let (ballot, _) = loop {
            let look = polls.look("s").await.unwrap();
            if look.0.epoch > 0 {
                break look;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(kept(&engine).await, ballot);
    }
}
