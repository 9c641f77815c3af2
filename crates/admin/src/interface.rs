//! Routes that describe themselves.
//!
//! A route is added together with its description and the rights it requires. So there is
//! no route without a guard, and none that the OpenAPI document lacks. The first parameter
//! of a path names the entity on which the right is required; routes of the node require
//! it for the whole node.
//!
//! The body of a request is read before its handler runs, within limits of length and
//! time, and only after the guard has accepted it.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use steadfast_core::limits;
use steadfast_net::access::{
    AccessControl, AuditClient, Demand, EntityScope, Principal, Proof, Right, ServiceArea,
};
use steadfast_net::http::{ForwardedClient, Problem, audited, read as read_body};

/// Rights of routes that show what consumers receive: `read` is enough.
pub(super) const LOOK: &[Right] = &[Right::Listen, Right::Read];

/// A route and its description.
#[derive(Clone, Debug)]
pub struct ApiOperation {
    pub method: Method,
    /// With parameters in braces.
    pub path: &'static str,
    pub summary: &'static str,
    /// The caller needs one of them, on the entity that the path names first. For a path
    /// without an entity a right on any entity is enough, and the handler checks the rest.
    /// The routes of `Interface::with_any_key` name none.
    pub rights: &'static [Right],
    pub area: ServiceArea,
    /// The schema of the body, if it has one.
    pub body: Option<Value>,
    /// The status of success, and its description.
    pub success: (u16, &'static str),
}

/// Routes and their OpenAPI description.
pub struct Interface {
    access: Arc<AccessControl>,
    routes: Router,
    paths: Map<String, Value>,
}

impl Interface {
    /// An interface without routes.
    pub fn new(access: Arc<AccessControl>) -> Self {
        Self {
            access,
            routes: Router::new(),
            paths: Map::new(),
        }
    }

    /// The access control of the routes.
    pub(super) fn access(&self) -> &Arc<AccessControl> {
        &self.access
    }

    /// Adds a route. Its handler finds a [`Principal`] and the [`AccessControl`] with the request.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operations are written where they are added"
    )]
    pub fn with(self, operation: ApiOperation, handler: MethodRouter) -> Self {
        let whole = (operation.area == ServiceArea::Node).then_some(EntityScope::Whole);
        self.add(&operation, handler, whole)
    }

    /// Adds a route that requires its right for the whole area, also if its path names an
    /// entity.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operations are written where they are added"
    )]
    pub(super) fn with_whole(self, operation: ApiOperation, handler: MethodRouter) -> Self {
        self.add(&operation, handler, Some(EntityScope::Whole))
    }

    /// Adds a route that any key may use.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operations are written where they are added"
    )]
    pub(super) fn with_any_key(self, operation: ApiOperation, handler: MethodRouter) -> Self {
        self.add(&operation, handler, Some(EntityScope::AnyKey))
    }

    fn add(
        mut self,
        operation: &ApiOperation,
        handler: MethodRouter,
        scope: Option<EntityScope<'static>>,
    ) -> Self {
        let described = describe(operation);
        let path = self
            .paths
            .entry(operation.path)
            .or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = described;
        let guard = Guard {
            access: Arc::clone(&self.access),
            rights: operation.rights,
            area: operation.area,
            path: operation.path,
            scope,
        };
        let guarded = handler.route_layer(middleware::from_fn_with_state(guard, check));
        self.routes = self.routes.route(operation.path, guarded);
        self
    }

    /// Describes a route that is served outside of the interface and needs no key.
    #[must_use]
    pub fn open(mut self, path: &'static str, summary: &str, kind: &str) -> Self {
        let described = json!({"get": {
            "summary": summary,
            "security": [],
            "responses": {"200": {
                "description": "Success",
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
        // Serialized once: a request without a key must be cheap.
        let document = Bytes::from(document(&this.paths).to_string());
        let kind = [(CONTENT_TYPE, "application/json")];
        let document = get(async move || (kind, document));
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

/// Parses the body of a request.
pub(super) fn read<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Problem> {
    match body {
        Ok(Json(body)) => Ok(body),
        Err(error) => Err(Problem::bad_request(error.body_text())),
    }
}

#[derive(Clone)]
struct Guard {
    access: Arc<AccessControl>,
    rights: &'static [Right],
    area: ServiceArea,
    /// With parameters in braces.
    path: &'static str,
    /// The scope of the right, if the path does not determine it.
    scope: Option<EntityScope<'static>>,
}

async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admit(&request) {
        Ok(pass) => match whole(request).await {
            Ok(mut request) => {
                let asker = AuditClient::current().with_key(pass.name());
                request.extensions_mut().insert(pass);
                request.extensions_mut().insert(Arc::clone(&guard.access));
                let answering = audited(State(guard.access), request, next);
                asker.scope(answering).await
            }
            Err(problem) => problem.into_response(),
        },
        Err(problem) => {
            let client = request.extensions().get::<ForwardedClient>();
            let client = client.map(|client| client.address.to_string());
            let code = problem.code().0;
            tracing::debug!(
                event = "access.denied",
                client,
                code,
                why = problem.message()
            );
            if let Some(denied) = problem.denied() {
                guard.access.audit().refused(denied);
            }
            problem.into_response()
        }
    }
}

/// Reads the whole body of a request.
async fn whole(request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let most = limits::REST_BODY_BYTES;
    let whole = read_body(&parts.extensions, body, most).await;
    let whole = whole.map_err(|why| Problem::unread(why, most))?;
    Ok(Request::from_parts(parts, Body::from(whole)))
}

impl Guard {
    fn admit(&self, request: &Request) -> Result<Principal, Problem> {
        let header = request.headers().get(AUTHORIZATION);
        let header = header.and_then(|value| value.to_str().ok());
        let resource = request.uri().path();
        let entity = entity(self.path, resource);
        let scope = match (self.scope, &entity) {
            (Some(fixed), _) => fixed,
            (None, Some(entity)) => EntityScope::Entity(entity),
            (None, None) => EntityScope::AnyEntity,
        };
        let demand = Demand::new(self.rights, self.area, scope);
        let proof = Proof::Header { header, resource };
        Ok(self.access.authorize(proof, &demand)?)
    }
}

/// The value of the first path parameter, decoded.
fn entity(described: &str, path: &str) -> Option<String> {
    let mut parts = described.split('/').zip(path.split('/'));
    let (_, found) = parts.find(|(part, _)| part.starts_with('{'))?;
    let found = percent_decode_str(found).decode_utf8_lossy();
    Some(found.into_owned())
}

fn describe(operation: &ApiOperation) -> Value {
    let (status, meaning) = operation.success;
    let parameters: Vec<_> = parameters(operation.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let mut described = json!({
        "summary": operation.summary,
        "description": needs(operation),
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

fn needs(operation: &ApiOperation) -> String {
    if operation.rights.is_empty() {
        return "Needs any key.".to_owned();
    }
    let rights: Vec<_> = operation.rights.iter().map(ToString::to_string).collect();
    format!(
        "Needs the right '{} {}'.",
        rights.join(" or "),
        operation.area
    )
}

/// The unique name of an operation: `post_v1_keys_name_rotate`.
fn operation_id(operation: &ApiOperation) -> String {
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
                "description": "The error, with a stable code.",
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
