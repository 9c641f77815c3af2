//! The route that describes the caller and the ports.
//!
//! A client with a key builds its connection strings from the response. The response holds
//! no secret: the client has its own.

use std::sync::Arc;

use axum::http::Method;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use super::interface::{Interface, Operation, on};
use super::operator::Operator;
use crate::access::{Area, Pass};
use crate::connection_string::Listener;

/// A key as its holder sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub rights: Vec<String>,
    /// Whether the server accepts the well-known keys of development.
    pub development: bool,
    /// The ports of the server. The caller knows the host.
    pub listeners: Vec<Listener>,
}

/// Adds the route that describes the caller's key.
pub fn identity_routes(interface: Interface, operator: &Arc<dyn Operator>) -> Interface {
    let own = Arc::clone(operator);
    let identity = async move |Extension(pass): Extension<Pass>| {
        let addresses = own.addresses();
        let listeners = addresses.iter();
        let listeners = listeners.filter_map(|(name, url)| Listener::new(name, url));
        Json(Identity {
            name: pass.name().to_owned(),
            rights: pass.grants().iter().map(ToString::to_string).collect(),
            development: own.is_development(),
            listeners: listeners.collect(),
        })
    };
    let operation = Operation {
        method: Method::GET,
        path: "/v1/me",
        summary: "The caller's key and its rights, and the ports of the server",
        rights: &[],
        area: Area::Node,
        body: None,
        success: (200, "The key, without its secret"),
    };
    interface.with_any_key(operation, on(&Method::GET, identity))
}
