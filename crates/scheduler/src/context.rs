//! Dependencies and settings of the scheduler's handlers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::clock::Clock;
use steadfast_jobs::region::RegionMap;
use steadfast_jobs::{JobClient, JobId, Target};
use steadfast_net::access::AccessControl;
use steadfast_net::egress::EgressPolicy;

use super::home::HomePair;
use super::seal::SecretKey;

/// The dependencies of the handlers.
pub struct Context {
    pub keeping: JobPlacement,
    pub clock: Arc<dyn Clock>,
    pub auth: Auth,
    pub key: SecretKey,
    /// Which addresses jobs may call; jobs with other targets are rejected.
    pub egress: EgressPolicy,
    /// Resolves targets inside the server.
    pub internal: Arc<dyn InternalTargets>,
    pub settings: Settings,
    /// The known locations of collections.
    pub atlas: RegionMap,
}

/// The placement of the jobs.
pub enum JobPlacement {
    /// On this server.
    Alone(JobClient),
    /// In two regions.
    Pair(HomePair),
}

/// The authentication of clients.
#[derive(Clone)]
pub enum Auth {
    /// No authentication: for loopback.
    None,
    /// A key with rights on jobs, or a web token signed with one.
    Keys(Arc<AccessControl>),
}

/// Settings of the interface.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the SKU of a collection limits its jobs.
    pub enforce_quotas: bool,
    /// Minimum retry interval.
    pub min_retry_interval: Duration,
    /// Whether a job may run every second.
    pub allow_seconds: bool,
    /// Collections with more jobs are enabled, disabled and deleted in the background.
    pub synchronous_jobs: u64,
    /// Default number of items of a page.
    pub page: usize,
    /// The scheme of generated links, unless a trusted proxy reports one.
    pub scheme: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enforce_quotas: true,
            min_retry_interval: Duration::from_secs(15),
            allow_seconds: false,
            synchronous_jobs: 1000,
            page: 1000,
            scheme: "http",
        }
    }
}

/// Resolves targets inside the server.
#[async_trait]
pub trait InternalTargets: Send + Sync + 'static {
    /// The message for each occurrence of this job, or why the target is invalid.
    async fn resolve(&self, job: &JobId, target: &Value) -> Result<Target, String>;
}

/// A server without internal targets.
pub struct NoInternalTargets;

#[async_trait]
impl InternalTargets for NoInternalTargets {
    async fn resolve(&self, _: &JobId, _: &Value) -> Result<Target, String> {
        Err("this server has no service that a job could call".into())
    }
}
