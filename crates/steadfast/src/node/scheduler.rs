//! The Scheduler's REST interface, declared collections.
//!
//! Feature `scheduler`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_jobs::{JobDraft, JobId};
use steadfast_net::access::Grant;
use steadfast_net::http::{Problem, Routes};
use steadfast_scheduler::{
    Auth, CollectionDeclaration, Context, JobPlacement, NoInternalTargets, Settings,
};

use super::error::Result;
use super::inner::Inner;
use super::job_targets::NodeJobTargets;
use crate::config::Error as ConfigError;

/// The interval between attempts to create declared job collections.
const DECLARE_PAUSE: Duration = Duration::from_secs(1);

/// The context of the REST interface.
pub(super) fn context(inner: &Inner, is_encrypted: bool) -> Context {
    let calls = &inner.services.calls;
    Context {
        keeping: match &inner.paired {
            Some(paired) => JobPlacement::Pair(paired.pair()),
            None => JobPlacement::Alone(inner.services.jobs.clone()),
        },
        clock: Arc::clone(&inner.clock),
        auth: Auth::Keys(Arc::clone(&inner.access)),
        key: calls.key.clone(),
        egress: calls.connect.guard.policy.clone(),
        // Services of one region cannot be targets of jobs that both regions run.
        internal: match inner.paired {
            Some(_) => Arc::new(NoInternalTargets),
            None => Arc::new(NodeJobTargets {
                hubs: inner.services.hubs.clone(),
            }),
        },
        atlas: inner.config.regions.atlas.clone(),
        settings: Settings {
            enforce_quotas: inner.config.jobs_quotas,
            allow_seconds: inner.config.jobs_allow_seconds,
            min_retry_interval: inner.config.jobs_min_retry_interval,
            scheme: if is_encrypted { "https" } else { "http" },
            ..Settings::default()
        },
    }
}

/// The draft of a new job, for a caller with these grants.
pub(super) async fn draft_job(
    inner: &Inner,
    grants: Vec<Grant>,
    id: &JobId,
    properties: Value,
) -> std::result::Result<JobDraft, Problem> {
    let context = context(inner, false);
    steadfast_scheduler::draft_job(&context, grants, id, properties).await
}

/// Adds the REST interface to the routes of the HTTP port.
pub(super) fn routes(inner: &Arc<Inner>, is_encrypted: bool, routes: Routes) -> Routes {
    let context = Arc::new(context(inner, is_encrypted));
    routes.merge(steadfast_scheduler::routes(context))
}

/// Creates the job collections that the configuration declares; in a region pair in the
/// background, once the owners of its jobs are known.
pub(super) async fn declare(inner: &Arc<Inner>) -> Result<()> {
    if inner.paired.is_none() {
        return declare_now(inner).await;
    }
    let (weak, stop) = (Arc::downgrade(inner), inner.stop.clone());
    inner
        .tasks
        .spawn(stop.run_until_cancelled_owned(async move {
            let mut said = String::new();
            loop {
                tokio::time::sleep(DECLARE_PAUSE).await;
                let Some(inner) = weak.upgrade() else {
                    return;
                };
                let Err(error) = declare_now(&inner).await else {
                    return;
                };
                let why = error.to_string();
                if why != said {
                    tracing::info!(event = "jobs.not_declared", why);
                    said = why;
                }
            }
        }));
    Ok(())
}

async fn declare_now(inner: &Inner) -> Result<()> {
    let context = context(inner, false);
    let mut refused = Ok(());
    for declared in &inner.config.job_collections {
        let declared = CollectionDeclaration {
            subscription: declared.subscription.as_deref().unwrap_or("main"),
            group: declared.resource_group.as_deref().unwrap_or("default"),
            name: &declared.name,
            most_jobs: declared.max_jobs,
            location: declared.location.as_deref(),
        };
        if let Err(why) = steadfast_scheduler::declare(&context, declared).await {
            let why = format!("'{}': {why}", declared.name);
            let error = ConfigError::value("job_collection", "the configuration", why);
            refused = Err(error.into());
        }
    }
    refused
}
