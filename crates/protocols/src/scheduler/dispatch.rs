//! Dispatch of requests to operations.

use axum::http::Method;
use axum::http::header::IF_MATCH;
use steadfast_jobs::{Expect, Jobs, SweepKind};

use super::answer::Answer;
use super::context::Context;
use super::fault::Fault;
use super::forwarded::Forwarded;
use super::home::Home;
use super::operate::{Asked, Manner};
use super::operations::rights;
use super::path::Place;
use super::query::Parameters;

/// The jobs that an operation works on.
pub(crate) struct Source<'a> {
    /// The jobs, or their replica.
    pub(crate) jobs: &'a Jobs,
    /// In a region pair, their home.
    pub(crate) home: Option<&'a dyn Home>,
    /// How a missing collection is created, if it may be.
    pub(crate) makes: Option<Expect>,
}

/// Parses a request and executes its operation.
pub(crate) async fn operate(
    context: &Context,
    source: Source<'_>,
    wanted: &Forwarded,
) -> Result<Answer, Fault> {
    let query = Parameters::read(&wanted.uri)?;
    let place = Place::read(wanted.uri.path());
    let place = place.ok_or_else(|| Fault::not_found("there is no such resource"))?;
    let text = |name: &str| {
        let value = wanted.headers.get(name)?;
        value.to_str().ok()
    };
    let asked = Asked {
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

async fn dispatch(asked: &Asked<'_>, method: &Method, place: Place) -> Result<Answer, Fault> {
    if rights(method, &place).is_none() {
        return Err(match place {
            Place::CollectionVerb(..) | Place::JobVerb(..) => {
                Fault::not_found("there is no such operation")
            }
            _ => Fault::method("this resource does not know the method"),
        });
    }
    match (method.as_str(), place) {
        ("POST", Place::Preview) => asked.preview(),
        (
            "GET",
            Place::Collections {
                subscription,
                group,
            },
        ) => asked.collections(&subscription, group.as_deref()).await,
        ("GET", Place::Collection(id)) => asked.get_collection(&id).await,
        ("PUT", Place::Collection(id)) => asked.put_collection(&id, Manner::Put).await,
        ("PATCH", Place::Collection(id)) => asked.put_collection(&id, Manner::Patch).await,
        ("DELETE", Place::Collection(id)) => asked.sweep(&id, SweepKind::Delete).await,
        ("POST", Place::CollectionVerb(id, verb)) => match verb.as_str() {
            "enable" => asked.sweep(&id, SweepKind::Enable).await,
            "disable" => asked.sweep(&id, SweepKind::Disable).await,
            "import" => asked.import(&id).await,
            _ => Err(Fault::not_found(
                "there is no such operation on a job collection",
            )),
        },
        ("GET", Place::Operation(id, number)) => asked.operation(&id, number).await,
        ("GET", Place::Jobs(id)) => asked.list(&id).await,
        ("GET", Place::Job(id)) => asked.get_job(&id).await,
        ("PUT", Place::Job(id)) => asked.put_job(&id, Manner::Put).await,
        ("PATCH", Place::Job(id)) => asked.put_job(&id, Manner::Patch).await,
        ("DELETE", Place::Job(id)) => asked.delete_job(&id).await,
        ("GET", Place::JobVerb(id, verb)) if verb == "history" => asked.history(&id).await,
        ("POST", Place::JobVerb(id, verb)) => match verb.as_str() {
            "run" => asked.run(&id).await,
            "backfill" => asked.backfill(&id).await,
            "pause" => asked.pause(&id).await,
            "resume" => asked.resume(&id).await,
            _ => Err(Fault::not_found("there is no such operation on a job")),
        },
        _ => Err(Fault::method("this resource does not know the method")),
    }
}
