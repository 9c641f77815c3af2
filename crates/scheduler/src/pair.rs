//! Routing of requests between the regions of a pair.
//!
//! Each region is the home of some collections: their `location`. A request is forwarded
//! to the region that currently owns the jobs of the collection's home, and its response
//! is relayed; clients are never redirected. If the owner is unreachable, reads are
//! answered from the local replica and marked as stale; changes fail.

use axum::body::to_bytes;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_jobs::{CollectionId, ErrorKind, NameRequest, Precondition};

use super::context::Context;
use super::dispatch::{JobSource, operate};
use super::error::SchedulerError;
use super::forwarding::{ForwardedRequest, HomeRequest, HomeResponse, Purpose};
use super::home::{self, HomePair, JobHome};
use super::path::ResourcePath;
use super::query::Parameters;
use super::response::{SchedulerResponse, finish};
use super::{body, collection};

/// The header of a response from a replica.
const STALE: &str = "x-steadfast-stale";

/// The header of a response from a region without its peer.
const REPLICATION: &str = "x-steadfast-replication";

/// The client's correlation id.
const CORRELATION: &str = "x-ms-correlation-request-id";

/// Maximum lookups of a collection that is created and deleted concurrently.
const TRIES: usize = 4;

/// Answers a request for a collection of either home.
pub(crate) async fn answer(
    context: &Context,
    pair: &HomePair,
    wanted: &ForwardedRequest,
) -> Response {
    let read = Parameters::read(&wanted.uri).map(|_| ResourcePath::read(wanted.uri.path()));
    let place = match read {
        Ok(place) => place,
        Err(fault) => return finish(&wanted.headers, Err(fault)),
    };
    match place {
        Some(ResourcePath::Collections { .. }) if wanted.method == Method::GET => {
            pair.list(context, wanted).await
        }
        Some(place) if place.collection().is_some() => pair.find(context, wanted, &place).await,
        // The response is the same in both regions.
        _ => {
            let home = &*pair.homes[0];
            finish(&wanted.headers, run(context, home, wanted, None).await)
        }
    }
}

impl HomePair {
    /// The homes, those owned by this region first: they need no hop.
    fn nearest(&self) -> Vec<&dyn JobHome> {
        let mut all: Vec<_> = self.homes.iter().map(|home| &**home).collect();
        all.sort_by_key(|home| !home.is_owner());
        all
    }

    /// Tries each home until one has the collection.
    async fn find(
        &self,
        context: &Context,
        wanted: &ForwardedRequest,
        place: &ResourcePath,
    ) -> Response {
        for _ in 0..TRIES {
            let mut unsure = Vec::new();
            for home in self.nearest() {
                match ask(context, home, wanted, Purpose::Find).await {
                    HomeResponse::Response(response) => return response,
                    HomeResponse::NotHere => {}
                    _ => unsure.push(home),
                }
            }
            if !unsure.is_empty() {
                return stale(context, &unsure, wanted, place).await;
            }
            let result = match place {
                ResourcePath::Collection(id) if wanted.method == Method::PUT => {
                    match self.make(context, wanted, id).await {
                        Ok(HomeResponse::Response(response)) => return response,
                        // A concurrent request was faster: the collection may exist by now.
                        Ok(HomeResponse::NameConflict) => continue,
                        Ok(_) => Err(not_owned()),
                        Err(fault) => Err(fault),
                    }
                }
                // An operation on its jobs has ended with the collection.
                ResourcePath::Operation(..) if wanted.method == Method::GET => {
                    Ok(SchedulerResponse::Done)
                }
                _ => Err(SchedulerError::not_found(
                    "STF-5201: there is no such job collection",
                )),
            };
            return finish(&wanted.headers, result);
        }
        let message = "STF-5210: job collections of this name, or of one that shares its \
                       tickets, are created and deleted concurrently; retry";
        finish(&wanted.headers, Err(SchedulerError::unavailable(message)))
    }

    /// Creates a collection that neither home has.
    async fn make(
        &self,
        context: &Context,
        wanted: &ForwardedRequest,
        id: &CollectionId,
    ) -> Result<HomeResponse, SchedulerError> {
        let body = body::read(&wanted.body)?;
        let home = self.wanted_home(context, &body)?;
        // Validate first: an invalid collection draws no ticket.
        collection::draft(context, Some(home), id, &body)?;
        let reply = match self.ticket(home, id).await {
            HomeResponse::Ticket(ticket) => ask(context, home, wanted, Purpose::Make(ticket)).await,
            reply => reply,
        };
        Ok(match reply {
            HomeResponse::Response(mut response) => {
                let asked = wanted.headers.get(CORRELATION).cloned();
                let headers = response.headers_mut();
                headers.extend(asked.map(|asked| (HeaderName::from_static(CORRELATION), asked)));
                HomeResponse::Response(response)
            }
            reply => reply,
        })
    }

    /// A ticket that permits a home to create a collection.
    async fn ticket(&self, home: &dyn JobHome, id: &CollectionId) -> HomeResponse {
        let [first, second] = [&*self.homes[0], &*self.homes[1]];
        let is_first = home.name() == first.name();
        let above = if is_first {
            HomeResponse::Ticket(0)
        } else {
            name(second, id, NameRequest::Void { up_to: 0 }).await
        };
        let HomeResponse::Ticket(above) = above else {
            return above;
        };
        let drawn = name(first, id, NameRequest::Issue { above }).await;
        let HomeResponse::Ticket(ticket) = drawn else {
            return drawn;
        };
        if is_first {
            let void = name(second, id, NameRequest::Void { up_to: ticket }).await;
            let HomeResponse::Ticket(_) = void else {
                return void;
            };
        }
        drawn
    }

    /// The home that a body names; by default this server's region.
    fn wanted_home(&self, context: &Context, body: &Value) -> Result<&dyn JobHome, SchedulerError> {
        let location = match &body["location"] {
            Value::Null => &self.region,
            Value::String(text) => text,
            _ => return Err(SchedulerError::member("location", "it must be a text")),
        };
        self.place(&context.atlas, location)
    }

    /// The collections of both homes.
    async fn list(&self, context: &Context, wanted: &ForwardedRequest) -> Response {
        let (mut all, mut marks) = (Vec::new(), HeaderMap::new());
        for home in &self.homes {
            let home = &**home;
            let response = match ask(context, home, wanted, Purpose::Find).await {
                HomeResponse::Response(response) => response,
                _ => match home.copies() {
                    Some(_) => from_copy(context, home, wanted).await,
                    None => finish(&wanted.headers, Err(not_owned())),
                },
            };
            if response.status() != StatusCode::OK {
                return response;
            }
            for mark in [STALE, REPLICATION] {
                if let Some(value) = response.headers().get(mark) {
                    marks.insert(mark, value.clone());
                }
            }
            // The body is in memory already.
            let body = to_bytes(response.into_body(), usize::MAX).await;
            let shown: Value =
                serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
            all.extend(shown["value"].as_array().cloned().unwrap_or_default());
        }
        all.sort_by_key(|one| one["id"].as_str().unwrap_or_default().to_lowercase());
        let shown = SchedulerResponse::Shown(json!({"value": all, "nextLink": null}));
        let mut response = finish(&wanted.headers, Ok(shown));
        response.headers_mut().extend(marks);
        response
    }
}

/// Sends a request to the owner of a home's jobs.
async fn ask(
    context: &Context,
    home: &dyn JobHome,
    wanted: &ForwardedRequest,
    purpose: Purpose,
) -> HomeResponse {
    if home.is_owner() {
        return here(context, home, wanted, purpose).await;
    }
    let is_read = wanted.method == Method::GET;
    let errand = HomeRequest::Request(Box::new(wanted.clone()), purpose);
    match forward(home, &errand, is_read).await {
        // The local replica can answer instead.
        HomeResponse::Response(response)
            if is_read && response.status() == StatusCode::SERVICE_UNAVAILABLE =>
        {
            HomeResponse::Unsure
        }
        reply => reply,
    }
}

/// Sends a request about a name.
async fn name(home: &dyn JobHome, id: &CollectionId, naming: NameRequest) -> HomeResponse {
    if home.is_owner() {
        named(home, id, naming).await
    } else {
        forward(home, &HomeRequest::Name(id.clone(), naming), false).await
    }
}

async fn forward(home: &dyn JobHome, errand: &HomeRequest, is_read: bool) -> HomeResponse {
    let said = home.forward(errand.encode(), is_read).await;
    let reply = said.and_then(|said| HomeResponse::decode(said).ok());
    reply.unwrap_or(HomeResponse::Unsure)
}

async fn named(home: &dyn JobHome, id: &CollectionId, naming: NameRequest) -> HomeResponse {
    // With `require_sync` the name must be in both regions.
    if let Err(fault) = home::check(home, &Method::PUT) {
        return HomeResponse::Response(finish(&HeaderMap::new(), Err(fault)));
    }
    match home.jobs().name(id, naming).await {
        Ok(ticket) => HomeResponse::Ticket(ticket),
        Err(error) if error.kind() == ErrorKind::Taken => HomeResponse::NameConflict,
        Err(_) => HomeResponse::Unsure,
    }
}

/// Answers a request that another region forwarded after it authenticated the client.
pub async fn serve_forwarded(context: &Context, home: &dyn JobHome, errand: Bytes) -> Bytes {
    let reply = match HomeRequest::decode(errand) {
        // Never forwarded again: regions that disagree would forward it in a loop.
        Ok(_) if !home.is_owner() => HomeResponse::Unsure,
        Ok(HomeRequest::Request(wanted, purpose)) => here(context, home, &wanted, purpose).await,
        Ok(HomeRequest::Name(id, naming)) => named(home, &id, naming).await,
        Err(_) => {
            let fault = SchedulerError::bad("the request is malformed");
            HomeResponse::Response(finish(&HeaderMap::new(), Err(fault)))
        }
    };
    reply.encode().await
}

/// Answers a request as the owner of the home.
async fn here(
    context: &Context,
    home: &dyn JobHome,
    wanted: &ForwardedRequest,
    purpose: Purpose,
) -> HomeResponse {
    let place = ResourcePath::read(wanted.uri.path());
    let makes = match purpose {
        Purpose::Find => None,
        Purpose::Make(ticket) => Some(Precondition::Ticket(ticket)),
    };
    if let (Purpose::Find, Some(id)) = (purpose, place.as_ref().and_then(ResourcePath::collection))
    {
        match home.jobs().collection(id).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoCollection => return HomeResponse::NotHere,
            Err(_) => return HomeResponse::Unsure,
        }
    }
    let result = match home::check(home, &wanted.method) {
        Ok(()) => run(context, home, wanted, makes).await,
        Err(fault) => Err(fault),
    };
    match (
        purpose,
        result.as_ref().err().and_then(|fault| fault.reason),
    ) {
        // It was deleted concurrently.
        (Purpose::Find, Some(ErrorKind::NoCollection)) => return HomeResponse::NotHere,
        (Purpose::Make(_), Some(ErrorKind::Taken)) => return HomeResponse::NameConflict,
        _ => {}
    }
    // The other region may have been lost in between.
    let confirmed = match &result {
        Ok(_) => home::confirm(home, &wanted.method),
        Err(_) => Ok(()),
    };
    let mut response = finish(&wanted.headers, confirmed.and(result));
    if home.replication().mode == "degraded" {
        let headers = response.headers_mut();
        headers.insert(REPLICATION, HeaderValue::from_static("degraded"));
    }
    HomeResponse::Response(response)
}

async fn run(
    context: &Context,
    home: &dyn JobHome,
    wanted: &ForwardedRequest,
    makes: Option<Precondition>,
) -> Result<SchedulerResponse, SchedulerError> {
    let source = JobSource {
        jobs: home.jobs(),
        home: Some(home),
        makes,
    };
    operate(context, source, wanted).await
}

/// Answers from a local replica when no reachable region owns the collection.
async fn stale(
    context: &Context,
    unsure: &[&dyn JobHome],
    wanted: &ForwardedRequest,
    place: &ResourcePath,
) -> Response {
    if wanted.method != Method::GET {
        return finish(&wanted.headers, Err(not_owned()));
    }
    let mut known = None;
    for home in unsure {
        let (Some(copies), Some(id)) = (home.copies(), place.collection()) else {
            continue;
        };
        if copies.collection(id).await.is_ok() || known.is_none() {
            known = Some(*home);
        }
    }
    match known {
        Some(home) => from_copy(context, home, wanted).await,
        None => finish(&wanted.headers, Err(not_owned())),
    }
}

async fn from_copy(context: &Context, home: &dyn JobHome, wanted: &ForwardedRequest) -> Response {
    let result = match home.copies() {
        Some(copies) => {
            let source = JobSource {
                jobs: &copies,
                home: Some(home),
                makes: None,
            };
            operate(context, source, wanted).await
        }
        None => Err(not_owned()),
    };
    let mut response = finish(&wanted.headers, result);
    let headers = response.headers_mut();
    headers.insert(STALE, HeaderValue::from_static("true"));
    response
}

fn not_owned() -> SchedulerError {
    SchedulerError::unavailable(
        "STF-7033: no region that can be reached owns the jobs now; try again soon",
    )
}
