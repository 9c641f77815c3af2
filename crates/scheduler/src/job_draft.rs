//! Drafts of jobs for other interfaces.

use serde_json::Value;
use steadfast_jobs::{JobDraft, JobId};
use steadfast_net::access::Grant;
use steadfast_net::http::Problem;

use super::context::{Context, JobPlacement};
use super::error::SchedulerError;
use super::job;

/// The draft of a new job from the properties of its document, as in a PUT. The job acts
/// later with the rights that the caller has now.
pub async fn draft_job(
    context: &Context,
    grants: Vec<Grant>,
    id: &JobId,
    properties: Value,
) -> Result<JobDraft, Problem> {
    let JobPlacement::Alone(jobs) = &context.keeping else {
        let words = "jobs in two regions are created by the Scheduler's interface only";
        return Err(Problem::bad_request(words));
    };
    let home = jobs.collection(&id.collection).await;
    let home = home.map_err(|error| Problem::new(error.code(), error.message()))?;
    let body = serde_json::json!({ "properties": properties });
    let drafted = async {
        let wanted = job::replaced(&body, None)?;
        job::draft(context, &Some(grants), id, &wanted, None, &home).await
    };
    drafted.await.map_err(|error| problem(&error))
}

fn problem(error: &SchedulerError) -> Problem {
    match (&error.reason, &error.target) {
        (None, Some(target)) => Problem::bad_request(format!("{target}: {}", error.message)),
        _ => Problem::because(error.message.clone()),
    }
}
