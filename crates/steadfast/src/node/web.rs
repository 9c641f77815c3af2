//! The port of REST, health and metrics.

use std::sync::Arc;

use steadfast_admin::{CollectionsBackend, Interface, NodeAdmin};
use steadfast_core::task::name_task;
use steadfast_eventhubs::amqp::Context as Events;
use steadfast_eventhubs::publish;
use steadfast_net::http::{
    BodyBudget, Cors, KnownHosts, Landing, LandingPage, MetricRegistry, Middleware, TrustedProxies,
    serve,
};
use steadfast_net::listen::{Caps, Governor, Listener, ListenerOptions};
use steadfast_scheduler::{Auth, JobPlacement, NoInternalTargets, Settings};

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
    certificate: Option<&Arc<steadfast_net::listen::Certificate>>,
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
pub(super) fn jobs(inner: &Inner, is_encrypted: bool) -> steadfast_scheduler::Context {
    steadfast_scheduler::Context {
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
    let interface = steadfast_admin::cluster_routes(interface, &operator);
    let interface = steadfast_admin::region_routes(interface, &operator);
    let shelves = Arc::new(RestCollections(Arc::clone(inner))) as Arc<dyn CollectionsBackend>;
    let interface = steadfast_admin::state_routes(interface, &shelves);
    let hubs = Arc::new(steadfast_admin::EventHubContext {
        hubs: inner.services.hubs.clone(),
        blobs: inner.services.blobs.clone(),
        operator: Arc::clone(&operator),
        leaving: inner.leaving.clone(),
    });
    let interface = steadfast_admin::event_routes(interface, &hubs);
    let scheme = if port.listener.is_encrypted() {
        "https"
    } else {
        "http"
    };
    let rest_hubs = durable::rest_context(inner);
    let desk = steadfast_admin::HubAdmin {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.clock),
    };
    let interface = steadfast_admin::hub_routes(interface, &desk);
    let task_hubs = Arc::new(steadfast_admin::TaskHubAdmin {
        hubs: inner.services.task_hubs.clone(),
        node: inner.config.name.clone(),
    });
    let interface = steadfast_admin::task_hub_routes(interface, &task_hubs);
    let routes = interface
        .routes()
        .merge(steadfast_durabletask::routes(durable::context(inner)))
        .merge(steadfast_durabletask::rest::routes(rest_hubs, scheme))
        .merge(Arc::clone(&inner.health).routes())
        .merge(landing(inner, scheme).routes())
        .merge(steadfast_eventhubs::amqp::routes(
            Arc::clone(events),
            inner.leaving.clone(),
        ))
        .merge(publish::routes(Arc::clone(events)))
        .merge(steadfast_scheduler::routes(Arc::new(jobs(
            inner,
            port.listener.is_encrypted(),
        ))))
        .merge(super::realtime::routes(inner))
        .merge(Arc::clone(&frame.metrics).routes())
        .fallback(steadfast_admin::no_route)
        .method_not_allowed_fallback(steadfast_admin::no_method);
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
