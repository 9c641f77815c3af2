//! Who the caller is, and which ports there are for it.
//!
//! A client that has a key makes its connection strings of the answer. It holds no secret:
//! the client knows its own.

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
    /// Whether the server lets in the keys that everybody knows.
    pub development: bool,
    /// The ports of the server. At which host they are, the caller knows.
    pub listeners: Vec<Listener>,
}

/// Adds the route by which callers learn who they are.
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
