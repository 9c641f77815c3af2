//! What every engine must do, asked of those in memory.
//!
//! Engines in crates of their own are asked the same questions there.

use std::sync::Arc;

use steadfast_core::clock::VirtualClock;
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;

use crate::seam::{Subject, suite};

async fn memory() -> Subject {
    let clock = VirtualClock::default();
    Subject {
        engine: Arc::new(MemoryEngine::with_clock(Arc::new(clock.clone()))),
        clock,
        _folder: None,
    }
}

/// The hostile engine only delays here: its other faults are no conformance.
async fn hostile() -> Subject {
    let subject = memory().await;
    let faults = EngineFaults {
        delay: 30,
        ..EngineFaults::default()
    };
    Subject {
        engine: Arc::new(HostileEngine::new(subject.engine, faults, 7)),
        clock: subject.clock,
        _folder: None,
    }
}

suite!(memory hostile);
