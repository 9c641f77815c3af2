//! A server that is in no region pair, and no witness of one.
//!
//! There is no value of these types, so that nothing has to be handled.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_jobs::JobClient;
use steadfast_partition::region::PairStatus;
use steadfast_storage::Engine;

use super::cluster_port::NodeListener;
use super::error::Result;
use super::job_calls::CallOptions;
use crate::config::Config;

pub(super) enum PairMember {}

pub(super) enum RegionListener {}

pub(super) struct MovedHome {
    pub(super) home: String,
    pub(super) to: String,
    pub(super) result: std::result::Result<(), String>,
}

impl PairMember {
    pub(super) fn region(&self) -> &str {
        match *self {}
    }

    pub(super) fn other(&self) -> &str {
        match *self {}
    }

    pub(super) fn home_names(&self) -> [&str; 2] {
        match *self {}
    }

    pub(super) fn statuses(&self) -> Vec<PairStatus> {
        match *self {}
    }

    pub(super) fn jobs(&self) -> &JobClient {
        match *self {}
    }

    /// The jobs of both homes, in the form of whichever interface reads them.
    pub(super) fn pair<T>(&self) -> T {
        match *self {}
    }

    pub(super) async fn transfer(&self, _: Vec<(String, String)>, _: bool) -> Vec<MovedHome> {
        match *self {}
    }

    pub(super) async fn leave(&self) {
        match *self {}
    }
}

pub(super) async fn start(
    _: &Config,
    _: &Arc<dyn Engine>,
    _: Option<NodeListener>,
    _: &CallOptions,
    _: &Arc<dyn Clock>,
) -> Result<(Option<Arc<PairMember>>, Option<RegionListener>)> {
    Ok((None, None))
}
