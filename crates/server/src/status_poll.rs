//! The status of a server, asked again while it works.

use std::time::Duration;

use anyhow::Result;
use reqwest::Method;
use steadfast::admin::{NodeStatus, WorkProgress};

use crate::server_client::ServerClient;

/// How long an answer may take: the work may end in the meantime.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks for the status with a connection of its own.
pub(crate) struct StatusPoll {
    remote: ServerClient,
    /// How many partitions the server had first.
    partitions: Option<usize>,
}

impl StatusPoll {
    pub(crate) fn of(remote: &ServerClient) -> Result<Self> {
        Ok(Self {
            remote: remote.twin()?,
            partitions: None,
        })
    }

    /// The status; `None` if the server does not answer.
    pub(crate) fn status(&mut self) -> Option<NodeStatus> {
        let (get, path) = (Method::GET, "/v1/status");
        let status = self.remote.request_within(PATIENCE, get, path, None);
        status.ok()
    }

    /// How many of its partitions the server has handed over.
    pub(crate) fn handed_over(&mut self) -> Option<WorkProgress> {
        let left = self.status()?.partitions.len();
        let partitions = *self.partitions.get_or_insert(left);
        Some(WorkProgress {
            partitions,
            done: partitions.saturating_sub(left),
        })
    }
}
