//! What every engine must do, asked of each of them.
//!
//! The engine on PostgreSQL needs a server and is asked in `postgres_seam.rs`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod seam;

use std::sync::Arc;

use seam::{Subject, suite};
use steadfast_core::clock::VirtualClock;
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::local::{LocalEngine, Options};
use steadfast_storage::memory::MemoryEngine;

async fn memory() -> Subject {
    let clock = VirtualClock::default();
    Subject {
        engine: Arc::new(MemoryEngine::with_clock(Arc::new(clock.clone()))),
        clock,
        _folder: None,
    }
}

async fn local() -> Subject {
    let clock = VirtualClock::default();
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        clock: Arc::new(clock.clone()),
        log_file_bytes: 256 * 1024,
        event_file_bytes: 4 * 1024,
        inline_event_bytes: 1024,
        ..Options::default()
    };
    Subject {
        engine: Arc::new(LocalEngine::open(folder.path(), &options).unwrap()),
        clock,
        _folder: Some(folder),
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

suite!(memory local hostile);
