//! The engine of the tests that need no server.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use steadfast_storage::Engine;
use steadfast_storage::memory::MemoryEngine;

/// Random cases of one property.
pub(crate) const CASES: u32 = 200;

/// An engine that is empty.
pub(crate) async fn fresh() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}
