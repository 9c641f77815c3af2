//! The ways in that real clients use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_protocols::listen::{Bind, Certificate, Listener};
use steadfast_protocols::{amqp, blob, http, publish};

use super::{ACCOUNT, ACCOUNT_KEY, KEY, KEY_NAME, Node};

/// Listens on free ports, and says on which.
pub(crate) fn listen(node: &Node, folder: &Path) -> Value {
    let (chain, key) = certificate(folder);
    let tls = Certificate::load(&chain, &key).expect("our own certificate");
    let plain = node.listen();
    let encrypted = node.listen_at(Bind {
        address: ([127, 0, 0, 1], 0).into(),
        tls: Some(tls.server(&[])),
        connections: 1000,
    });
    json!({
        "amqp": plain.port(), "amqps": encrypted.port(), "https": serve_web(node, &tls),
        "certificate": chain, "key_name": KEY_NAME, "key": KEY,
        "blob": serve_blobs(node), "account": ACCOUNT, "account_key": ACCOUNT_KEY,
    })
}

/// Blobs, not encrypted.
pub(crate) fn serve_blobs(node: &Node) -> u16 {
    let listener = Listener::bind(Bind {
        address: ([127, 0, 0, 1], 0).into(),
        tls: None,
        connections: 1000,
    });
    let listener = listener.expect("a port");
    let port = listener.address().port();
    let access = node.context.access.clone().expect("keys are checked");
    let context = blob::Context::new(node.blobs.clone(), access, Arc::clone(&node.clock), false);
    let frame = http::Frame {
        cors: Arc::new(http::Cors::new(Vec::<String>::new())),
        proxies: Arc::default(),
        metrics: Arc::new(http::Registry::new(Arc::clone(&node.clock))),
    };
    let routes = frame.around(blob::routes(Arc::new(context)));
    let stop = node.stop.clone();
    let serving = listener.run(
        node.stop.clone(),
        node.tasks.clone(),
        move |stream, peer| http::serve(stream, peer, routes.clone(), stop.clone()),
    );
    node.tasks.spawn(serving);
    port
}

/// HTTP with TLS: what clients use for AMQP over WebSocket.
fn serve_web(node: &Node, tls: &Arc<Certificate>) -> u16 {
    let listener = Listener::bind(Bind {
        address: ([127, 0, 0, 1], 0).into(),
        tls: Some(tls.server(&["http/1.1"])),
        connections: 1000,
    });
    let listener = listener.expect("a port");
    let port = listener.address().port();
    let routes = amqp::routes(Arc::clone(&node.context), node.stop.clone())
        .merge(publish::routes(Arc::clone(&node.context)));
    let stop = node.stop.clone();
    let serving = listener.run(
        node.stop.clone(),
        node.tasks.clone(),
        move |stream, peer| http::serve(stream, peer, routes.clone(), stop.clone()),
    );
    node.tasks.spawn(serving);
    port
}

/// A certificate for this machine, made once per folder.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    if !chain.exists() {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        std::fs::write(&chain, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    }
    (chain, key)
}
