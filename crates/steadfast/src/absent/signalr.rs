//! A node without SignalR's transports.
//!
//! Hubs run in the process; no client and no app server can connect.

use std::sync::Arc;

use steadfast_net::access::AccessControl;
use steadfast_net::egress::ConnectOptions;
use steadfast_net::http::{Middleware, Routes};
use steadfast_net::listen::Certificate;
use steadfast_partition::cluster::Cluster;

use super::client_port::ClientPort;
use super::error::Result;
use super::hubs::RealtimeHubs;
use super::inner::Inner;
use crate::config::Config;

pub(super) fn bind(_: &Config, _: Option<&Arc<Certificate>>) -> Result<Vec<ClientPort>> {
    Ok(Vec::new())
}

pub(super) fn set_mode(
    _: &RealtimeHubs,
    _: &Config,
    _: &ConnectOptions,
    _: &Arc<AccessControl>,
) -> Result<()> {
    Ok(())
}

pub(super) fn routes(_: &Arc<Inner>, routes: Routes) -> Routes {
    routes
}

pub(super) fn start(_: &Arc<Inner>, _: Vec<ClientPort>, _: &Middleware) {}

pub(super) fn connect(_: &Cluster, _: &Inner) {}
