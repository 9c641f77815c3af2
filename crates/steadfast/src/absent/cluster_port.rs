//! A node that reaches no other one.
//!
//! On PostgreSQL it is the only node of its cluster. There is no value of these types, so
//! that nothing has to be handled.

use std::sync::Arc;

use steadfast_net::listen::Certificate;
use steadfast_partition::cluster::{Cluster, ClusterNetwork, NodeIdentity};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Result;
use crate::config::Config;

#[derive(Clone, Copy)]
pub(super) enum NodeListener {}

pub(super) enum ClusterPort {}

pub(super) fn is_wanted(_: &Config) -> bool {
    false
}

pub(super) fn bind(_: &Config, _: Option<&Arc<Certificate>>) -> Result<Option<NodeListener>> {
    Ok(None)
}

impl ClusterPort {
    pub(super) fn new(_: &Config, listener: NodeListener, _: &str, _: (u32, u32)) -> Result<Self> {
        match listener {}
    }

    pub(super) fn identity(&self) -> &NodeIdentity {
        match *self {}
    }

    pub(super) fn set_incarnation(&mut self, _: u128) {
        match *self {}
    }

    pub(super) fn network(&self) -> Arc<dyn ClusterNetwork> {
        match *self {}
    }

    pub(super) fn serve(
        self,
        _: &Arc<Cluster>,
        _: Option<Arc<Certificate>>,
        _: &CancellationToken,
        _: &TaskTracker,
    ) {
        match self {}
    }
}
