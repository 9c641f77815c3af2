//! The hub trait that the macro implements.
//!
//! `#[hub]` on an impl block implements [`Hub`] for a type; it is not written by
//! hand.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::dispatch::call_queue::{MethodCall, MethodResponse};
use crate::dispatch::context::Context;
use crate::error::HubResult;

/// A type whose methods clients call.
pub trait Hub: Send + Sync + 'static {
    /// Its methods.
    const METHODS: &'static [Method];

    /// Calls the method of that index.
    fn call(self: Arc<Self>, method: usize, call: MethodCall)
    -> BoxFuture<'static, MethodResponse>;

    /// A client has connected or migrated here. An error rejects it.
    fn on_connected(self: Arc<Self>, context: Context) -> BoxFuture<'static, HubResult<()>> {
        drop((self, context));
        Box::pin(std::future::ready(Ok(())))
    }

    /// A client has disconnected, or migrates to another server.
    fn on_disconnected(
        self: Arc<Self>,
        context: Context,
        error: Option<String>,
    ) -> BoxFuture<'static, HubResult<()>> {
        drop((self, context, error));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One method of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its name; case and underscores are ignored.
    pub name: &'static str,
    /// Whether it returns a stream.
    pub is_stream: bool,
    /// Number of plain arguments.
    pub arguments: usize,
    /// Number of streams it takes.
    pub uploads: usize,
}
