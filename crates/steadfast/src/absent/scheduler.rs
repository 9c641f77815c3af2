//! A node without the Scheduler's REST interface.

use std::sync::Arc;

use serde_json::Value;
use steadfast_jobs::{JobDraft, JobId};
use steadfast_net::access::Grant;
use steadfast_net::http::{Problem, Routes};

use super::error::Result;
use super::inner::Inner;

pub(super) fn routes(_: &Arc<Inner>, _: bool, routes: Routes) -> Routes {
    routes
}

pub(super) async fn draft_job(
    _: &Inner,
    _: Vec<Grant>,
    _: &JobId,
    _: Value,
) -> std::result::Result<JobDraft, Problem> {
    let words = "this program was built without the feature 'scheduler', which reads jobs";
    Err(Problem::bad_request(words))
}

pub(super) async fn declare(_: &Arc<Inner>) -> Result<()> {
    Ok(())
}
