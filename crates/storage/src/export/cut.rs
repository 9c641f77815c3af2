//! The moment of a backup, one for all partitions.
//!
//! The tap is opened on all partitions before the first is read, and closed on all
//! of them at once, while none can move. Nothing leaves a partition before it is
//! durable, so whatever one partition has done because of another is in the backup
//! only if its cause is.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Lsn, Partition, StreamId};

use super::tap::{Tap, TappedEntry};
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::state::State;
use crate::streams::StreamHead;

/// A partition at one moment.
pub struct CutPoint {
    pub partition: Partition,
    /// Of its last durable transaction.
    pub lsn: Lsn,
    /// The time of its owner.
    pub time: Timestamp,
    pub heads: BTreeMap<StreamId, StreamHead>,
}

/// An open tap on some partitions; dropping it closes it.
pub struct OpenTap {
    ledgers: Vec<Ledger>,
    tap: Arc<Tap>,
}

impl OpenTap {
    /// Opens a tap of `limit` bytes; answers where each partition stands.
    pub fn begin(ledgers: Vec<Ledger>, limit: usize) -> Result<(Self, Vec<CutPoint>)> {
        let tap = Arc::new(Tap::new(limit));
        let tapping = Self { ledgers, tap };
        let mut points = Vec::new();
        for ledger in &tapping.ledgers {
            let mut state = ledger.shared.write();
            points.push(point(ledger, &state)?);
            state.tap = Some(Arc::clone(&tapping.tap));
        }
        Ok((tapping, points))
    }

    /// Takes what was committed since the last call.
    pub fn take(&self) -> Result<Vec<TappedEntry>> {
        self.tap.take()
    }

    /// Closes the tap everywhere at once; answers where each partition stands and
    /// what had come in.
    pub fn cut(self) -> Result<(Vec<CutPoint>, Vec<TappedEntry>)> {
        // No other code locks two partitions at once, so this cannot deadlock.
        let mut states: Vec<_> = self.ledgers.iter().map(|l| l.shared.write()).collect();
        for state in &mut states {
            state.tap = None;
        }
        let points = self.ledgers.iter().zip(&states);
        let points: Result<Vec<_>> = points.map(|(ledger, state)| point(ledger, state)).collect();
        drop(states);
        Ok((points?, self.tap.take()?))
    }
}

impl Drop for OpenTap {
    fn drop(&mut self) {
        for ledger in &self.ledgers {
            let mut state = ledger.shared.write();
            if state
                .tap
                .as_ref()
                .is_some_and(|tap| Arc::ptr_eq(tap, &self.tap))
            {
                state.tap = None;
            }
        }
    }
}

fn point(ledger: &Ledger, state: &State) -> Result<CutPoint> {
    match &state.failed {
        Some(error) => Err(Error::clone(error)),
        None => Ok(CutPoint {
            partition: ledger.partition(),
            lsn: state.durable_lsn,
            time: state.time,
            heads: state.streams.heads().clone(),
        }),
    }
}
