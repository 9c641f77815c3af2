//! What a run measures, on which cluster and for how long.

use std::time::Duration;

use steadfast_storage_postgres::{Durability, Options};

/// Partitions that share statements.
pub(super) const PARTITIONS: u32 = 16;

/// The size of a row: a key of 8 bytes and its value.
pub(super) const ROW_BYTES: usize = 200;

/// The schemas of a run.
pub(super) const OURS: &str = "steadfast_bench";
pub(super) const BARE: &str = "steadfast_bench_bare";

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster that is measured.
    pub url: String,
    /// One server without standbys.
    pub single: bool,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each measurement is repeated, in turn with the others.
    pub rounds: u32,
    /// Event bytes of one measurement.
    pub event_bytes: usize,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(url: &str, single: bool) -> Self {
        Self {
            url: url.to_string(),
            single,
            duration: Duration::from_secs(5),
            rounds: 3,
            event_bytes: 256 << 20,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(url: &str, single: bool) -> Self {
        Self {
            duration: Duration::from_millis(200),
            rounds: 1,
            event_bytes: 4 << 20,
            ..Self::full(url, single)
        }
    }

    /// The options of the engine.
    pub(crate) fn options(&self) -> Options {
        Options {
            durability: if self.single {
                Durability::Single
            } else {
                Durability::Quorum
            },
            schema: OURS.to_string(),
            ..Options::new(self.url.clone())
        }
    }
}
