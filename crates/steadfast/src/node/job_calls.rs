//! Outbound calls of jobs.
//!
//! Feature `scheduler`.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_jobs::Deliverer;
use steadfast_net::access::Secret;
use steadfast_net::egress::ConnectOptions;
use steadfast_scheduler::SecretKey;
use steadfast_scheduler::outbound::{self, CallPermit, OutboundDelivery};
use steadfast_storage::NodeLease;

use super::error::Result;
use crate::config::{Config, Error as ConfigError};

/// How calls of jobs are made.
pub(super) type CallOptions = outbound::Options;

/// The options of the configuration; calls need no lease yet.
pub(super) fn call_options(
    config: &Config,
    secret: &Secret,
    connect: &ConnectOptions,
) -> CallOptions {
    let mut options = CallOptions::new(SecretKey::new(secret.reveal()));
    options.connect = connect.clone();
    let endpoints = config.jobs_endpoints.iter().cloned();
    options.endpoints.extend(endpoints);
    if let Some(authority) = &config.jobs_token_authority {
        options.authority.clone_from(authority);
    }
    options
}

/// Makes the calls of jobs, while the lease is valid.
pub(super) fn node_deliverer(
    mut options: CallOptions,
    lease: Option<NodeLease>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Deliverer>> {
    // Another node may run the jobs as soon as this node's lease expires.
    options.permit = lease.map(|lease| CallPermit::node(move || lease.tenure()));
    deliverer(options, clock)
}

/// Makes the calls of jobs.
pub(super) fn deliverer(
    options: CallOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Deliverer>> {
    let outbound = OutboundDelivery::new(options, Arc::clone(clock));
    let outbound = outbound.map_err(|why| ConfigError::value("jobs", "the settings", why))?;
    Ok(Arc::new(outbound))
}
