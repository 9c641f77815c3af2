//! What all partitions of one node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;

use crate::background::BackgroundThread;
use crate::budget::Budget;
use crate::cache::RowCache;
use crate::engine::Engine;
use crate::node_lease::NodeLease;
use crate::streams::TailBudget;

/// The engine, the clock and the budgets of a node.
pub(crate) struct NodeContext {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: Owner,
    /// Until when reads from memory are allowed; without a lease they always are.
    pub(crate) lease: Option<NodeLease>,
    pub(crate) budget: Budget,
    pub(crate) cache: Arc<RowCache>,
    pub(crate) tails: Arc<TailBudget>,
    pub(crate) behind: BackgroundThread,
    /// Entries that were refused, and those whose outcome had to be found out.
    pub(crate) fenced: AtomicU64,
    pub(crate) unknown: AtomicU64,
    /// Groups that were sent so far, by all committers.
    pub(crate) groups: AtomicU64,
    /// One backup at a time.
    pub(crate) backing_up: AtomicBool,
}
