//! The port of REST, health and metrics.

use std::sync::Arc;

use steadfast_core::task::name_task;
use steadfast_protocols::amqp::Context as Events;
use steadfast_protocols::durabletask;
use steadfast_protocols::http::{
    BodyBudget, Cors, KnownHosts, Landing, LandingPage, MetricRegistry, Middleware, TrustedProxies,
    serve,
};
use steadfast_protocols::listen::{Caps, Governor, Listener, ListenerOptions};
use steadfast_protocols::publish;
use steadfast_protocols::rest::{self, CollectionsBackend, Interface, NodeAdmin};
use steadfast_protocols::scheduler::{self, Auth, JobPlacement, NoInternalTargets, Settings};

use super::collections::RestCollections;
use super::durable;
use super::error::Result;
use super::inner::Inner;
use super::job_targets::NodeJobTargets;
use super::listen_address::ListenAddress;
use super::metrics::samples;
use crate::config::Config;

/// A port that is open but not served yet.
pub(super) struct HttpPort {
    listener: Listener,
}

/// Opens the port before any state, so that a port in use is reported at once.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<steadfast_protocols::listen::Certificate>>,
) -> Result<HttpPort> {
    let listener = Listener::bind(ListenerOptions {
        address: config.address(config.http_port),
        tls: certificate.map(|certificate| certificate.server(&["h2", "http/1.1"])),
        connections: config.connections,
    })?;
    Ok(HttpPort { listener })
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
pub(super) fn frame(inner: &Arc<Inner>) -> Middleware {
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

/// The context of the scheduler's REST interface.
pub(super) fn jobs(inner: &Inner, is_encrypted: bool) -> scheduler::Context {
    scheduler::Context {
        keeping: match &inner.paired {
            Some(paired) => JobPlacement::Pair(paired.pair()),
            None => JobPlacement::Alone(inner.services.jobs.clone()),
        },
        clock: Arc::clone(&inner.clock),
        auth: Auth::Keys(Arc::clone(&inner.access)),
        key: inner.services.secret.clone(),
        egress: inner.services.egress.clone(),
        // Services of one region cannot be targets of jobs that both regions run.
        internal: match inner.paired {
            Some(_) => Arc::new(NoInternalTargets),
            None => Arc::new(NodeJobTargets {
                hubs: inner.services.hubs.clone(),
            }),
        },
        atlas: inner.config.regions.atlas.clone(),
        settings: Settings {
            enforce_quotas: inner.config.jobs_quotas,
            allow_seconds: inner.config.jobs_allow_seconds,
            min_retry_interval: inner.config.jobs_min_retry_interval,
            scheme: if is_encrypted { "https" } else { "http" },
            ..Settings::default()
        },
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

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, port: HttpPort, frame: &Middleware, events: &Arc<Events>) {
    let operator = Arc::clone(inner) as Arc<dyn NodeAdmin>;
    let interface = rest::routes(Interface::new(Arc::clone(&inner.access)), &operator);
    let interface = rest::identity_routes(interface, &operator);
    let interface = rest::audit_routes(interface);
    let log = Arc::new(rest::NodeLog {
        ring: inner.log.clone(),
        node: inner.config.name.clone(),
        leaving: inner.leaving.clone(),
    });
    let interface = rest::log_routes(interface, &log);
    let interface = rest::maintenance_routes(interface, &operator);
    let interface = rest::cluster_routes(interface, &operator);
    let interface = rest::region_routes(interface, &operator);
    let shelves = Arc::new(RestCollections(Arc::clone(inner))) as Arc<dyn CollectionsBackend>;
    let interface = rest::state_routes(interface, &shelves);
    let hubs = Arc::new(rest::EventHubContext {
        hubs: inner.services.hubs.clone(),
        blobs: inner.services.blobs.clone(),
        operator: Arc::clone(&operator),
        leaving: inner.leaving.clone(),
    });
    let interface = rest::event_routes(interface, &hubs);
    let scheme = if port.listener.is_encrypted() {
        "https"
    } else {
        "http"
    };
    let rest_hubs = durable::rest_context(inner);
    let desk = rest::HubAdmin {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.clock),
    };
    let interface = rest::hub_routes(interface, &desk);
    let task_hubs = Arc::new(rest::TaskHubAdmin {
        hubs: inner.services.task_hubs.clone(),
        node: inner.config.name.clone(),
    });
    let interface = rest::task_hub_routes(interface, &task_hubs);
    let routes = interface
        .routes()
        .merge(durabletask::routes(durable::context(inner)))
        .merge(durabletask::rest::routes(rest_hubs, scheme))
        .merge(Arc::clone(&inner.health).routes())
        .merge(landing(inner, scheme).routes())
        .merge(steadfast_protocols::amqp::routes(
            Arc::clone(events),
            inner.leaving.clone(),
        ))
        .merge(publish::routes(Arc::clone(events)))
        .merge(scheduler::routes(Arc::new(jobs(
            inner,
            port.listener.is_encrypted(),
        ))))
        .merge(super::realtime::routes(inner))
        .merge(Arc::clone(&frame.metrics).routes())
        .fallback(rest::no_route)
        .method_not_allowed_fallback(rest::no_method);
    let routes = frame.wrap(routes);
    let listener = port.listener.with_governor(&inner.governor);
    inner.services.addresses.write().push(listener.address());
    inner.addresses.lock().push(ListenAddress {
        name: "http",
        url: format!("{scheme}://{}", listener.address()),
    });
    let stop = inner.stop.clone();
    let connections = inner.stop.clone();
    let running = listener.run(stop, inner.tasks.clone(), move |stream, peer| {
        name_task(serve(stream, peer, routes.clone(), connections.clone()))
    });
    inner.tasks.spawn(running);
}
