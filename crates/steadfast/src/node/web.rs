//! The HTTP port of a node, and those of each protocol.

use std::sync::Arc;

use steadfast_admin::{CollectionsBackend, Interface, NodeAdmin};
use steadfast_net::http::{
    BodyBudget, Cors, KnownHosts, Landing, LandingPage, MetricRegistry, Middleware, Routes,
    TrustedProxies,
};
use steadfast_net::listen::{Caps, Certificate, Governor};

use super::client_port::ClientPort;
use super::collections::RestCollections;
use super::error::Result;
use super::inner::Inner;
use super::metrics::samples;
use super::{durabletask, eventhubs, scheduler, signalr};
use crate::config::Config;

/// The ports of clients, open but not served yet.
pub(super) struct ClientPorts {
    http: ClientPort,
    eventhubs: Vec<ClientPort>,
    durabletask: Vec<ClientPort>,
    signalr: Vec<ClientPort>,
}

/// Opens the ports before any state, so that a port in use is reported at once.
pub(super) fn bind(config: &Config, certificate: Option<&Arc<Certificate>>) -> Result<ClientPorts> {
    let (port, protocols) = (config.http_port, ["h2", "http/1.1"]);
    Ok(ClientPorts {
        http: ClientPort::bind("http", config, port, certificate, &protocols)?,
        eventhubs: eventhubs::bind(config, certificate)?,
        durabletask: durabletask::bind(config, certificate)?,
        signalr: signalr::bind(config, certificate)?,
    })
}

/// Serves the ports until the node stops.
pub(super) fn start(inner: &Arc<Inner>, ports: ClientPorts) {
    let frame = frame(inner);
    let (scheme, is_encrypted) = (ports.http.scheme(), ports.http.is_encrypted());
    let routes = admin_routes(inner)
        .merge(Arc::clone(&inner.health).routes())
        .merge(landing(inner, scheme).routes())
        .merge(Arc::clone(&frame.metrics).routes());
    let routes = durabletask::routes(inner, scheme, routes);
    let routes = eventhubs::routes(inner, routes);
    let routes = scheduler::routes(inner, is_encrypted, routes);
    let routes = signalr::routes(inner, routes)
        .fallback(steadfast_admin::no_route)
        .method_not_allowed_fallback(steadfast_admin::no_method);
    ports.http.serve_http(inner, frame.wrap(routes));
    eventhubs::start(inner, ports.eventhubs, &frame);
    signalr::start(inner, ports.signalr, &frame);
    durabletask::start(inner, ports.durabletask, &frame);
}

/// Bounds the connections of clients on all ports. Many may come from one proxy.
pub(super) fn governor(config: &Config) -> Governor {
    let proxies = proxies(config);
    let caps = Caps {
        unproven: config.unproven_connections,
        connection_bytes: config.connection_bytes as usize,
        bytes: config.connections_bytes as usize,
    };
    Governor::new(caps, move |peer| proxies.trusts(peer))
}

fn proxies(config: &Config) -> TrustedProxies {
    let proxies = config.trusted_proxies.iter().map(String::as_str);
    TrustedProxies::new(proxies).expect("the configuration was checked")
}

/// The middleware of all routes of this node.
fn frame(inner: &Arc<Inner>) -> Middleware {
    let metrics = Arc::new(MetricRegistry::new(Arc::clone(&inner.clock)));
    let weak = Arc::downgrade(inner);
    metrics.add_source(move || {
        weak.upgrade()
            .map(|inner| samples(&inner))
            .unwrap_or_default()
    });
    let cors = Cors::new(inner.config.cors_origins.iter().cloned());
    Middleware {
        bodies: BodyBudget::new(),
        // In development keys are well-known or not required: web pages may not call the node.
        cors: Arc::new(if inner.is_development {
            cors.with_loopback()
        } else {
            cors
        }),
        hosts: Arc::new(match (&inner.config.hosts[..], inner.is_development) {
            ([], false) => KnownHosts::Any,
            (names, _) => KnownHosts::new(names.iter().cloned()),
        }),
        proxies: Arc::new(proxies(&inner.config)),
        metrics,
    }
}

/// The landing page at `/`.
fn landing(inner: &Arc<Inner>, scheme: &'static str) -> Landing {
    let weak = Arc::downgrade(inner);
    Landing::new(scheme, move || {
        let inner = weak.upgrade();
        let inner = inner.as_deref();
        let development = inner.filter(|inner| inner.is_development);
        LandingPage {
            addresses: inner.map(NodeAdmin::addresses).unwrap_or_default(),
            strings: development.map(Inner::connection_strings),
        }
    })
}

/// The routes of the native REST interface.
fn admin_routes(inner: &Arc<Inner>) -> Routes {
    let operator = Arc::clone(inner) as Arc<dyn NodeAdmin>;
    let interface = steadfast_admin::routes(Interface::new(Arc::clone(&inner.access)), &operator);
    let interface = steadfast_admin::identity_routes(interface, &operator);
    let interface = steadfast_admin::audit_routes(interface);
    let log = Arc::new(steadfast_admin::NodeLog {
        ring: inner.log.clone(),
        node: inner.config.name.clone(),
        leaving: inner.leaving.clone(),
    });
    let interface = steadfast_admin::log_routes(interface, &log);
    let interface = steadfast_admin::maintenance_routes(interface, &operator);
    let interface = steadfast_admin::time_routes(interface, &operator);
    let interface = steadfast_admin::cluster_routes(interface, &operator);
    let interface = steadfast_admin::region_routes(interface, &operator);
    let shelves = Arc::new(RestCollections(Arc::clone(inner))) as Arc<dyn CollectionsBackend>;
    let interface = steadfast_admin::state_routes(interface, &shelves);
    let interface = steadfast_admin::transaction_routes(interface, &shelves);
    let hubs = Arc::new(steadfast_admin::EventHubContext {
        hubs: inner.services.hubs.clone(),
        blobs: inner.services.blobs.clone(),
        operator: Arc::clone(&operator),
        leaving: inner.leaving.clone(),
    });
    let interface = steadfast_admin::event_routes(interface, &hubs);
    let desk = steadfast_admin::HubAdmin {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.session_clock),
    };
    let interface = steadfast_admin::hub_routes(interface, &desk);
    let task_hubs = Arc::new(steadfast_admin::TaskHubAdmin {
        hubs: inner.services.task_hubs.clone(),
        node: inner.config.name.clone(),
    });
    let interface = steadfast_admin::task_hub_routes(interface, &task_hubs);
    interface.routes()
}
