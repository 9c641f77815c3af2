//! Routes that describe themselves.
//!
//! Whoever adds a route says what it is for and who may use it. So there is no
//! route without a guard, and none that the OpenAPI document does not know.
//!
//! The body of a request is read before its handler runs, within limits of length
//! and time, and only if the guard lets it in.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get};
use serde_json::{Map, Value, json};
use steadfast_core::limits;

use crate::access::{Access, Area, Asker, Pass, Right};
use crate::http::{Client, Problem, audited, read as read_body};

/// What a route is for.
#[derive(Clone, Debug)]
pub struct Operation {
    pub method: Method,
    /// With parameters in braces.
    pub path: &'static str,
    pub summary: &'static str,
    /// Whoever asks needs this right somewhere in the area; the handler checks the
    /// entity.
    pub right: Right,
    pub area: Area,
    /// The schema of the body, if it has one.
    pub body: Option<Value>,
    /// The status of success, and what it means.
    pub success: (u16, &'static str),
}

/// Routes, and their description.
pub struct Interface {
    access: Arc<Access>,
    routes: Router,
    paths: Map<String, Value>,
}

impl Interface {
    /// No route yet.
    pub fn new(access: Arc<Access>) -> Self {
        Self {
            access,
            routes: Router::new(),
            paths: Map::new(),
        }
    }

    /// Who may use the routes.
    pub(super) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Adds a route. Its handler finds a [`Pass`] and the [`Access`] with the request.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operations are written where they are added"
    )]
    pub fn with(mut self, operation: Operation, handler: MethodRouter) -> Self {
        let described = describe(&operation);
        let path = self
            .paths
            .entry(operation.path)
            .or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = described;
        let guard = Guard {
            access: Arc::clone(&self.access),
            right: operation.right,
            area: operation.area,
        };
        let guarded = handler.route_layer(middleware::from_fn_with_state(guard, check));
        self.routes = self.routes.route(operation.path, guarded);
        self
    }

    /// Describes a route that others serve, and that needs no key.
    #[must_use]
    pub fn open(mut self, path: &'static str, summary: &str, kind: &str) -> Self {
        let described = json!({"get": {
            "summary": summary,
            "security": [],
            "responses": {"200": {
                "description": "It is as it should be",
                "content": {kind: {}},
            }},
        }});
        self.paths.insert(path.to_owned(), described);
        self
    }

    /// All routes, with `/openapi.json`, which needs no key.
    pub fn routes(self) -> Router {
        let own = "/openapi.json";
        let this = self.open(own, "This document", "application/json");
        let document = document(&this.paths);
        let document = get(async move || Json(document.clone()));
        this.routes.route(own, document)
    }
}

/// A handler for one method.
pub(super) fn on<H, T>(method: &Method, handler: H) -> MethodRouter
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("a standard method");
    axum::routing::on(filter, handler)
}

/// The body of a request, or what is wrong with it.
pub(super) fn read<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Problem> {
    match body {
        Ok(Json(body)) => Ok(body),
        Err(error) => Err(Problem::bad_request(error.body_text())),
    }
}

#[derive(Clone)]
struct Guard {
    access: Arc<Access>,
    right: Right,
    area: Area,
}

async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admit(&request) {
        Ok(pass) => match whole(request).await {
            Ok(mut request) => {
                let asker = Asker::current().with_key(pass.name());
                request.extensions_mut().insert(pass);
                request.extensions_mut().insert(Arc::clone(&guard.access));
                let answering = audited(State(guard.access), request, next);
                asker.scope(answering).await
            }
            Err(problem) => problem.into_response(),
        },
        Err(problem) => {
            let client = request.extensions().get::<Client>();
            let client = client.map(|client| client.address.to_string());
            let code = problem.code().0;
            tracing::debug!(event = "access.denied", client, code, why = %problem);
            if let Some(denied) = problem.denied() {
                guard.access.audit().refused(denied);
            }
            problem.into_response()
        }
    }
}

/// The request with all of its body at hand.
async fn whole(request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let most = limits::REST_BODY_BYTES;
    let whole = read_body(&parts.extensions, body, most).await;
    let whole = whole.map_err(|why| Problem::unread(why, most))?;
    Ok(Request::from_parts(parts, Body::from(whole)))
}

impl Guard {
    fn admit(&self, request: &Request) -> Result<Pass, Problem> {
        let header = request.headers().get(AUTHORIZATION);
        let header = header.and_then(|value| value.to_str().ok());
        let pass = self.access.header(header, request.uri().path())?;
        pass.allows_somewhere(self.right, self.area)?;
        Ok(pass)
    }
}

fn describe(operation: &Operation) -> Value {
    let (status, meaning) = operation.success;
    let parameters: Vec<_> = parameters(operation.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let mut described = json!({
        "summary": operation.summary,
        "description": format!("Needs the right '{} {}'.", operation.right, operation.area),
        "operationId": operation_id(operation),
        "parameters": parameters,
        "responses": {
            status.to_string(): {"description": meaning},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    });
    if let Some(schema) = &operation.body {
        described["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": schema}},
        });
    }
    described
}

/// A name that is the operation's own: `post_v1_keys_name_rotate`.
fn operation_id(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}']);
    let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let method = operation.method.as_str().to_lowercase();
    format!("{method}_{}", words.join("_"))
}

fn parameters(path: &str) -> impl Iterator<Item = &str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn document(paths: &Map<String, Value>) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Steadfast",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"key": []}],
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {
                "description": "What happened, with a stable code.",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {
                        "type": "object",
                        "required": ["code", "message"],
                        "properties": {
                            "code": {"type": "string"},
                            "message": {"type": "string"},
                        },
                    }},
                }}},
            }},
        },
        "paths": paths,
    })
}
