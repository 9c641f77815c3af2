//! Leases on blobs: exclusive write access with a time-out.
//!
//! A lease is part of its blob's row. It expires by the owner's clock, without a
//! timer: the next request finds it expired. Lease operations leave the version
//! and the time of the last write as they are.

use std::time::Duration;

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

/// A lease that is held, broken or expired.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Lease", closed)]
pub struct BlobLease {
    #[n(0)]
    pub id: Uuid,
    /// The duration of a lease or renewal; `None` means infinite.
    #[n(1)]
    pub duration: Option<Duration>,
    /// When it expires, unless it is renewed.
    #[n(2)]
    pub until: Option<Timestamp>,
    /// When it becomes broken.
    #[n(3)]
    pub broken: Option<Timestamp>,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// There is no lease.
    Available,
    Leased,
    /// It was broken, and stays valid until its break period ends.
    Breaking,
    Broken,
    Expired,
}

/// A client's request for a lease.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum LeaseAction {
    #[n(0)]
    Acquire {
        #[n(0)]
        id: Uuid,
        #[n(1)]
        duration: Option<Duration>,
    },
    #[n(1)]
    Renew(Uuid),
    #[n(2)]
    Change {
        #[n(0)]
        id: Uuid,
        #[n(1)]
        to: Uuid,
    },
    #[n(3)]
    Release(Uuid),
    /// Ends it after this time at most; `None` means when it would expire.
    #[n(4)]
    Break(Option<Duration>),
}

impl BlobLease {
    fn new(id: Uuid, duration: Option<Duration>, now: Timestamp) -> Self {
        Self {
            id,
            duration,
            until: duration.map(|duration| after(now, duration)),
            broken: None,
        }
    }

    fn state(&self, now: Timestamp) -> LeaseState {
        match (self.broken, self.until) {
            (Some(broken), _) if now < broken => LeaseState::Breaking,
            (Some(_), _) => LeaseState::Broken,
            (None, Some(until)) if until <= now => LeaseState::Expired,
            (None, _) => LeaseState::Leased,
        }
    }

    /// How long a broken lease stays valid.
    pub fn break_time(&self, now: Timestamp) -> Duration {
        let left = self.broken.map_or(0, |broken| broken.0 - now.0);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

/// The state of a blob's lease.
pub(super) fn state(lease: Option<&BlobLease>, now: Timestamp) -> LeaseState {
    lease.map_or(LeaseState::Available, |lease| lease.state(now))
}

/// The lease after an action.
pub(super) fn act(
    lease: Option<BlobLease>,
    action: LeaseAction,
    now: Timestamp,
) -> Result<Option<BlobLease>> {
    match action {
        LeaseAction::Acquire { id, duration } => acquire(lease, id, duration, now),
        LeaseAction::Renew(id) => renew(lease, id, now),
        LeaseAction::Change { id, to } => change(lease, id, to, now),
        LeaseAction::Release(id) => match lease {
            Some(lease) if lease.id == id => Ok(None),
            _ => Err(mismatch()),
        },
        LeaseAction::Break(within) => shorten(lease, within, now),
    }
}

fn acquire(
    lease: Option<BlobLease>,
    id: Uuid,
    duration: Option<Duration>,
    now: Timestamp,
) -> Result<Option<BlobLease>> {
    let is_own = lease.is_some_and(|lease| lease.id == id);
    match state(lease.as_ref(), now) {
        LeaseState::Breaking if is_own => Err(broken("it cannot be acquired")),
        LeaseState::Leased if is_own => Ok(Some(BlobLease::new(id, duration, now))),
        LeaseState::Leased | LeaseState::Breaking => {
            let words = "another client has leased the blob; wait until its lease ends";
            Err(Error::new(ErrorKind::LeaseHeld, words))
        }
        _ => Ok(Some(BlobLease::new(id, duration, now))),
    }
}

/// An expired lease can be renewed while nothing else has happened to the blob.
fn renew(lease: Option<BlobLease>, id: Uuid, now: Timestamp) -> Result<Option<BlobLease>> {
    let lease = lease.filter(|lease| lease.id == id).ok_or_else(mismatch)?;
    match lease.state(now) {
        LeaseState::Breaking | LeaseState::Broken => Err(broken("it cannot be renewed")),
        _ => Ok(Some(BlobLease::new(id, lease.duration, now))),
    }
}

fn change(
    lease: Option<BlobLease>,
    id: Uuid,
    to: Uuid,
    now: Timestamp,
) -> Result<Option<BlobLease>> {
    let lease = match (lease, state(lease.as_ref(), now)) {
        (Some(lease), LeaseState::Leased | LeaseState::Breaking) => lease,
        _ => return Err(absent()),
    };
    if lease.id != id && lease.id != to {
        return Err(mismatch());
    }
    match lease.state(now) {
        LeaseState::Breaking => Err(broken("it cannot be changed")),
        _ => Ok(Some(BlobLease { id: to, ..lease })),
    }
}

fn shorten(
    lease: Option<BlobLease>,
    within: Option<Duration>,
    now: Timestamp,
) -> Result<Option<BlobLease>> {
    let lease = lease.ok_or_else(absent)?;
    let asked = within.map(|within| after(now, within));
    let end = match lease.state(now) {
        LeaseState::Broken | LeaseState::Expired | LeaseState::Available => now,
        LeaseState::Breaking => earlier(lease.broken, asked).unwrap_or(now),
        LeaseState::Leased => earlier(lease.until, asked).unwrap_or(now),
    };
    let broken = Some(end);
    Ok(Some(BlobLease { broken, ..lease }))
}

/// The lease after a write with the lease id `given`; rejected if another client holds
/// the lease.
pub(super) fn check_write(
    lease: Option<BlobLease>,
    given: Option<Uuid>,
    now: Timestamp,
) -> Result<Option<BlobLease>> {
    match (state(lease.as_ref(), now), given) {
        (LeaseState::Leased | LeaseState::Breaking, None) => {
            let words = "the blob is leased; name the lease, or wait until it ends";
            Err(Error::new(ErrorKind::LeaseHeld, words))
        }
        (_, None) => Ok(None),
        (_, Some(given)) => check_read(lease, given, now).map(|()| lease),
    }
}

/// Rejects a request that names a lease other than the valid one.
pub(super) fn check_read(lease: Option<BlobLease>, given: Uuid, now: Timestamp) -> Result<()> {
    match (state(lease.as_ref(), now), lease) {
        (LeaseState::Leased | LeaseState::Breaking, Some(lease)) if lease.id == given => Ok(()),
        (LeaseState::Leased | LeaseState::Breaking, _) => Err(mismatch()),
        (LeaseState::Broken | LeaseState::Expired, _) => Err(broken("acquire it again")),
        (LeaseState::Available, _) => Err(absent()),
    }
}

fn after(now: Timestamp, duration: Duration) -> Timestamp {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_add(millis))
}

fn earlier(left: Option<Timestamp>, right: Option<Timestamp>) -> Option<Timestamp> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}

fn mismatch() -> Error {
    let words = "the lease is not the one of the blob; it belongs to another client";
    Error::new(ErrorKind::LeaseMismatch, words)
}

fn absent() -> Error {
    let words = "the blob has no lease; acquire one first";
    Error::new(ErrorKind::LeaseNotPresent, words)
}

fn broken(then: &str) -> Error {
    let words = format!("the lease is broken or has expired; {then}");
    Error::new(ErrorKind::LeaseBroken, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const LATER: Timestamp = Timestamp(1_031_000);
    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    fn held(seconds: Option<u64>) -> Option<BlobLease> {
        let duration = seconds.map(Duration::from_secs);
        acquire(None, ONE, duration, NOW).unwrap()
    }

    fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_lease_excludes_others_until_it_expires() {
        let lease = held(Some(30));
        let theirs = |now| acquire(lease, TWO, None, now);
        assert_eq!(kind(theirs(NOW)), ErrorKind::LeaseHeld);
        assert_eq!(state(lease.as_ref(), LATER), LeaseState::Expired);
        assert_eq!(theirs(LATER).unwrap().unwrap().id, TWO);
        assert_eq!(kind(check_write(lease, None, NOW)), ErrorKind::LeaseHeld);
        assert_eq!(
            kind(check_write(lease, Some(TWO), NOW)),
            ErrorKind::LeaseMismatch
        );
        assert_eq!(check_write(lease, Some(ONE), NOW).unwrap(), lease);
        assert_eq!(
            kind(check_write(lease, Some(ONE), LATER)),
            ErrorKind::LeaseBroken
        );
        assert_eq!(check_write(lease, None, LATER).unwrap(), None);
        assert_eq!(
            kind(check_write(None, Some(ONE), NOW)),
            ErrorKind::LeaseNotPresent
        );
    }

    #[test]
    fn only_its_holder_renews_changes_and_releases_a_lease() {
        let lease = held(Some(30));
        let again = renew(lease, ONE, LATER).unwrap();
        assert_eq!(state(again.as_ref(), LATER), LeaseState::Leased);
        assert_eq!(kind(renew(lease, TWO, NOW)), ErrorKind::LeaseMismatch);
        assert_eq!(kind(renew(None, ONE, NOW)), ErrorKind::LeaseMismatch);
        let changed = change(lease, ONE, TWO, NOW).unwrap();
        assert_eq!(changed.unwrap().id, TWO);
        // The response was lost, and the client retries.
        assert_eq!(change(changed, ONE, TWO, NOW).unwrap(), changed);
        assert_eq!(
            kind(change(changed, ONE, ONE, NOW)),
            ErrorKind::LeaseMismatch
        );
        assert_eq!(
            kind(change(lease, ONE, TWO, LATER)),
            ErrorKind::LeaseNotPresent
        );
        let release = |id| act(changed, LeaseAction::Release(id), NOW);
        assert_eq!(kind(release(ONE)), ErrorKind::LeaseMismatch);
        assert_eq!(release(TWO).unwrap(), None);
    }

    #[test]
    fn a_broken_lease_counts_until_its_break_period_ends() {
        let asked = Some(Duration::from_secs(10));
        let breaking = shorten(held(None), asked, NOW).unwrap();
        assert_eq!(state(breaking.as_ref(), NOW), LeaseState::Breaking);
        assert_eq!(breaking.unwrap().break_time(NOW), Duration::from_secs(10));
        assert_eq!(kind(renew(breaking, ONE, NOW)), ErrorKind::LeaseBroken);
        assert_eq!(
            kind(acquire(breaking, ONE, None, NOW)),
            ErrorKind::LeaseBroken
        );
        assert_eq!(
            kind(acquire(breaking, TWO, None, NOW)),
            ErrorKind::LeaseHeld
        );
        assert_eq!(
            kind(change(breaking, ONE, TWO, NOW)),
            ErrorKind::LeaseBroken
        );
        assert_eq!(check_write(breaking, Some(ONE), NOW).unwrap(), breaking);
        assert_eq!(state(breaking.as_ref(), LATER), LeaseState::Broken);
        assert!(acquire(breaking, TWO, None, LATER).is_ok());
        let at_once = shorten(held(None), None, NOW).unwrap();
        assert_eq!(state(at_once.as_ref(), NOW), LeaseState::Broken);
        let fixed = shorten(held(Some(30)), None, NOW).unwrap();
        assert_eq!(fixed.unwrap().break_time(NOW), Duration::from_secs(30));
        assert_eq!(kind(shorten(None, None, NOW)), ErrorKind::LeaseNotPresent);
    }
}
