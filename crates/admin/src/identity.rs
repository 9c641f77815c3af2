//! The route that describes the caller and the ports.
//!
//! A client with a key builds its connection strings from the response. The response holds
//! no secret: the client has its own.

use std::sync::Arc;

use axum::http::Method;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use steadfast_net::access::{Principal, ServiceArea};
use steadfast_net::connection_string::ServicePort;

use super::interface::{ApiOperation, Interface, on};
use super::node_admin::NodeAdmin;

/// A key as its holder sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerIdentity {
    pub name: String,
    pub rights: Vec<String>,
    /// Whether the server accepts the well-known keys of development.
    pub development: bool,
    /// The ports of the server. The caller knows the host.
    pub listeners: Vec<ServicePort>,
}

/// Adds the route that describes the caller's key.
pub fn identity_routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let identity = async move |Extension(pass): Extension<Principal>| {
        let addresses = own.addresses();
        let listeners = addresses.iter();
        let listeners = listeners.filter_map(|(name, url)| ServicePort::new(name, url));
        Json(CallerIdentity {
            name: pass.name().to_owned(),
            rights: pass.grants().iter().map(ToString::to_string).collect(),
            development: own.is_development(),
            listeners: listeners.collect(),
        })
    };
    let operation = ApiOperation {
        method: Method::GET,
        path: "/v1/me",
        summary: "The caller's key and its rights, and the ports of the server",
        rights: &[],
        area: ServiceArea::Node,
        body: None,
        success: (200, "The key, without its secret"),
    };
    interface.with_any_key(operation, on(&Method::GET, identity))
}
