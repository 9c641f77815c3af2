//! What a run measures, on which cluster and for how long.

use std::time::Duration;

use crate::postgres;

/// Nodes of a run.
pub(super) const NODES: usize = 3;

/// Partitions that they share.
pub(super) const PARTITIONS: u16 = 12;

/// Rows that are written when a mirror is measured.
pub(super) const KEYS: u64 = 240_000;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster of PostgreSQL, and how long each measurement takes.
    pub(super) database: postgres::Settings,
    /// Sequential calls when a hop is measured.
    pub(super) calls: usize,
    /// Sequential events when a tail is measured.
    pub(super) events: usize,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(url: &str, single: bool) -> Self {
        Self {
            database: postgres::Settings::full(url, single),
            calls: 5_000,
            events: 1_000,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(url: &str, single: bool) -> Self {
        Self {
            database: postgres::Settings::quick(url, single),
            calls: 50,
            events: 20,
        }
    }

    pub(super) fn duration(&self) -> Duration {
        self.database.duration
    }

    pub(super) fn rounds(&self) -> u32 {
        self.database.rounds
    }
}
