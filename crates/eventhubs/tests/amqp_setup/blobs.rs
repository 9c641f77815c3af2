//! The port of blobs.

use std::sync::Arc;

use steadfast_eventhubs::blob;
use steadfast_net::http;
use steadfast_net::listen::{Listener, ListenerOptions};

use super::Node;

/// Serves blobs on a free port, not encrypted.
pub(crate) fn serve(node: &Node) -> u16 {
    let listener = Listener::bind(ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        tls: None,
        connections: 1000,
    });
    let listener = listener.expect("a port");
    let port = listener.address().port();
    let access = node.context.access.clone().expect("keys are checked");
    let context = blob::Context::new(node.blobs.clone(), access, Arc::clone(&node.clock), false);
    let frame = http::Middleware {
        bodies: http::BodyBudget::new(),
        cors: Arc::new(http::Cors::new(Vec::<String>::new())),
        hosts: Arc::new(http::KnownHosts::Any),
        proxies: Arc::default(),
        metrics: Arc::new(http::MetricRegistry::new(Arc::clone(&node.clock))),
    };
    let routes = frame.wrap(blob::routes(Arc::new(context)));
    let stop = node.stop.clone();
    let serving = listener.run(
        node.stop.clone(),
        node.tasks.clone(),
        move |stream, peer| http::serve(stream, peer, routes.clone(), stop.clone()),
    );
    node.tasks.spawn(serving);
    port
}
