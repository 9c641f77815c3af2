//! What the interface needs to answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::clock::Clock;
use steadfast_jobs::region::Atlas;
use steadfast_jobs::{JobId, Jobs, Target};

use super::home::Pair;
use super::seal::SecretKey;
use crate::access::Access;
use crate::egress::EgressPolicy;

/// Everything that handlers share.
pub struct Context {
    pub keeping: Keeping,
    pub clock: Arc<dyn Clock>,
    pub auth: Auth,
    pub key: SecretKey,
    /// Which addresses jobs may call; those that they may not are refused.
    pub egress: EgressPolicy,
    /// Finds targets that are instances of our own services.
    pub internal: Arc<dyn Internal>,
    pub settings: Settings,
    /// The places where collections may live.
    pub atlas: Atlas,
}

/// Where the jobs are.
pub enum Keeping {
    /// All of them here.
    Alone(Jobs),
    /// In two regions.
    Pair(Pair),
}

/// Who may ask.
#[derive(Clone)]
pub enum Auth {
    /// Anybody: for loopback.
    None,
    /// Whoever has a key with rights on jobs, or a web token signed with one.
    Keys(Arc<Access>),
}

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the sku of a collection bounds its jobs.
    pub enforce_quotas: bool,
    /// No retry comes sooner.
    pub min_retry_interval: Duration,
    /// Whether a job may run every second.
    pub allow_seconds: bool,
    /// Collections with more jobs are enabled, disabled and deleted in the
    /// background.
    pub synchronous_jobs: u64,
    /// How many items a page has if nobody says so.
    pub page: usize,
    /// Which scheme our addresses have, unless a trusted proxy says so.
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

/// Finds instances of our own services by what a job says of them.
#[async_trait]
pub trait Internal: Send + Sync + 'static {
    /// The message for each occurrence of this job, or why there is none.
    async fn resolve(&self, job: &JobId, target: &Value) -> Result<Target, String>;
}

/// No service of ours can be a target.
pub struct NoInternal;

#[async_trait]
impl Internal for NoInternal {
    async fn resolve(&self, _: &JobId, _: &Value) -> Result<Target, String> {
        Err("this server has no service that a job could call".into())
    }
}
