//! Dispatch of requests to operations.

use axum::http::Method;
use axum::http::header::IF_MATCH;
use steadfast_jobs::{JobClient, Precondition, SweepKind};

use super::context::Context;
use super::error::SchedulerError;
use super::forwarding::ForwardedRequest;
use super::home::JobHome;
use super::operations::rights;
use super::path::ResourcePath;
use super::query::Parameters;
use super::request::{SchedulerRequest, UpdateMode};
use super::response::SchedulerResponse;

/// The jobs that an operation works on.
pub(crate) struct JobSource<'a> {
    /// The jobs, or their replica.
    pub(crate) jobs: &'a JobClient,
    /// In a region pair, their home.
    pub(crate) home: Option<&'a dyn JobHome>,
    /// How a missing collection is created, if it may be.
    pub(crate) makes: Option<Precondition>,
}

/// Parses a request and executes its operation.
pub(crate) async fn operate(
    context: &Context,
    source: JobSource<'_>,
    wanted: &ForwardedRequest,
) -> Result<SchedulerResponse, SchedulerError> {
    let query = Parameters::read(&wanted.uri)?;
    let place = ResourcePath::read(wanted.uri.path());
    let place = place.ok_or_else(|| SchedulerError::not_found("there is no such resource"))?;
    let text = |name: &str| {
        let value = wanted.headers.get(name)?;
        value.to_str().ok()
    };
    let asked = SchedulerRequest {
        context,
        jobs: source.jobs,
        home: source.home,
        makes: source.makes,
        query: &query,
        body: &wanted.body,
        grants: &wanted.grants,
        base: wanted.base.clone(),
        if_match: text(IF_MATCH.as_str()).map(Into::into),
        request: text("x-ms-client-request-id").map(Into::into),
    };
    dispatch(&asked, &wanted.method, place).await
}

async fn dispatch(
    asked: &SchedulerRequest<'_>,
    method: &Method,
    place: ResourcePath,
) -> Result<SchedulerResponse, SchedulerError> {
    if rights(method, &place).is_none() {
        return Err(match place {
            ResourcePath::CollectionVerb(..) | ResourcePath::JobVerb(..) => {
                SchedulerError::not_found("there is no such operation")
            }
            _ => SchedulerError::method("this resource does not know the method"),
        });
    }
    match (method.as_str(), place) {
        ("POST", ResourcePath::Preview) => asked.preview(),
        (
            "GET",
            ResourcePath::Collections {
                subscription,
                group,
            },
        ) => asked.collections(&subscription, group.as_deref()).await,
        ("GET", ResourcePath::Collection(id)) => asked.get_collection(&id).await,
        ("PUT", ResourcePath::Collection(id)) => asked.put_collection(&id, UpdateMode::Put).await,
        ("PATCH", ResourcePath::Collection(id)) => {
            asked.put_collection(&id, UpdateMode::Patch).await
        }
        ("DELETE", ResourcePath::Collection(id)) => asked.sweep(&id, SweepKind::Delete).await,
        ("POST", ResourcePath::CollectionVerb(id, verb)) => match verb.as_str() {
            "enable" => asked.sweep(&id, SweepKind::Enable).await,
            "disable" => asked.sweep(&id, SweepKind::Disable).await,
            "import" => asked.import(&id).await,
            _ => Err(SchedulerError::not_found(
                "there is no such operation on a job collection",
            )),
        },
        ("GET", ResourcePath::Operation(id, number)) => asked.operation(&id, number).await,
        ("GET", ResourcePath::Jobs(id)) => asked.list(&id).await,
        ("GET", ResourcePath::Job(id)) => asked.get_job(&id).await,
        ("PUT", ResourcePath::Job(id)) => asked.put_job(&id, UpdateMode::Put).await,
        ("PATCH", ResourcePath::Job(id)) => asked.put_job(&id, UpdateMode::Patch).await,
        ("DELETE", ResourcePath::Job(id)) => asked.delete_job(&id).await,
        ("GET", ResourcePath::JobVerb(id, verb)) if verb == "history" => asked.history(&id).await,
        ("POST", ResourcePath::JobVerb(id, verb)) => match verb.as_str() {
            "run" => asked.run(&id).await,
            "backfill" => asked.backfill(&id).await,
            "pause" => asked.pause(&id).await,
            "resume" => asked.resume(&id).await,
            _ => Err(SchedulerError::not_found(
                "there is no such operation on a job",
            )),
        },
        _ => Err(SchedulerError::method(
            "this resource does not know the method",
        )),
    }
}
