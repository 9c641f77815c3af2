//! What every engine must do, asked of the engine in a folder.

use std::sync::Arc;

use steadfast_core::clock::VirtualClock;
use steadfast_storage_local::{LocalEngine, Options};

use crate::seam::{Subject, suite};

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

suite!(local);
