//! Certificates of clients, which prove nothing here.
//!
//! Clients prove themselves by keys, and nodes to one another by the cluster key. No
//! listener asks for a certificate, so that not even the one of a node opens anything.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SignatureScheme, StreamOwned};

use crate::running::PATIENCE;
use crate::running::encrypted::{certificate, encrypted};

/// Shows a certificate to a server that asks for one.
#[derive(Debug)]
struct Shown {
    own: Arc<CertifiedKey>,
    is_asked: AtomicBool,
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_asked.store(true, Ordering::SeqCst);
        Some(Arc::clone(&self.own))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// What a port answers to a client that has a certificate: the bytes up to an end, and
/// whether it has asked for the certificate.
fn answer(
    port: u16,
    trusted: &str,
    own: &(String, String),
    words: &[u8],
    end: &[u8],
) -> (String, bool) {
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap();
    roots.add(trusted).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(own.0.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(own.1.as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let shown = Arc::new(Shown {
        own: Arc::new(CertifiedKey::new(chain, key)),
        is_asked: AtomicBool::new(false),
    });
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config =
        config.with_client_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesClientCert>);
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(words).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    (said, shown.is_asked.load(Ordering::SeqCst))
}

const PATHS: [&str; 6] = [
    "/v1/status",
    "/runtime/webhooks/durabletask/instances",
    "/subscriptions/main/providers/Microsoft.Scheduler/jobCollections?api-version=2016-03-01",
    "/client/?hub=chat",
    "/api/hubs/chat/users/alice",
    "/account/box?restype=container",
];

/// Requests without a key for a listener, and how it may refuse them.
fn requests(listener: &str) -> (Vec<String>, &'static [&'static str]) {
    let rest = "host: localhost\r\nconnection: close\r\n";
    let grpc = "content-type: application/grpc\r\nte: trailers\r\ntaskhub: mine\r\n";
    if listener == "durable" {
        let method = "/TaskHubSidecarService/GetInstance";
        let asked = format!("POST {method} HTTP/1.1\r\n{rest}{grpc}content-length: 0\r\n\r\n");
        return (vec![asked], &["grpc-status: 16"]);
    }
    let asked = PATHS
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\n{rest}\r\n"));
    (asked.collect(), &["HTTP/1.1 401", "HTTP/1.1 403"])
}

#[test]
fn no_listener_takes_a_certificate_for_a_proof() {
    let (node, other) = (certificate(), certificate());
    let server = encrypted(&node);
    let (_, status) = server.ask(
        Method::GET,
        "/v1/status",
        "Bearer a secret of the root",
        None,
    );
    let mut tried = BTreeSet::new();
    for own in [&node, &other] {
        for listener in status["addresses"].as_array().unwrap() {
            let (name, url) = (listener[0].as_str().unwrap(), listener[1].as_str().unwrap());
            let (scheme, rest) = url.split_once("://").unwrap();
            if scheme == "amqp" {
                // Nothing is encrypted there, and no certificate can be shown.
                continue;
            }
            let port = rest.rsplit(':').next().unwrap().parse().unwrap();
            let ask = |words: &str, end: &[u8]| {
                let (said, is_asked) = answer(port, &node.0, own, words.as_bytes(), end);
                assert!(!is_asked, "{name} asks for a certificate");
                said
            };
            tried.insert(name.to_owned());
            if scheme == "amqps" {
                // What AMQP lets a client do whose mechanism is EXTERNAL is in the matrix.
                let hello = "AMQP\x03\x01\0\0";
                assert_eq!(ask(hello, hello.as_bytes()), hello);
                continue;
            }
            assert_eq!(scheme, "https", "{name}");
            let (requests, refusals) = requests(name);
            let is_refused = |said: &String| refusals.iter().any(|own| said.contains(own));
            let said: Vec<_> = requests.iter().map(|own| ask(own, b"\r\n\r\n")).collect();
            assert!(said.iter().any(is_refused), "{name}: {said:?}");
            let is_open = |own: &String| own.starts_with("HTTP/1.1 2") && !is_refused(own);
            assert!(!said.iter().any(is_open), "{name}: {said:?}");
        }
    }
    let all = ["amqps", "blob", "durable", "http", "realtime"];
    assert_eq!(tried, all.map(str::to_owned).into());
}
