//! A node without the protocols of the Event Hubs SDKs.
//!
//! Event hubs and blobs exist and are used in the process; no port speaks AMQP or Blob.

use std::sync::Arc;

use steadfast_net::http::{Middleware, Routes};
use steadfast_net::listen::Certificate;

use super::client_port::ClientPort;
use super::error::Result;
use super::inner::Inner;
use crate::config::Config;

pub(super) fn bind(_: &Config, _: Option<&Arc<Certificate>>) -> Result<Vec<ClientPort>> {
    Ok(Vec::new())
}

pub(super) fn routes(_: &Arc<Inner>, routes: Routes) -> Routes {
    routes
}

pub(super) fn start(_: &Arc<Inner>, _: Vec<ClientPort>, _: &Middleware) {}
