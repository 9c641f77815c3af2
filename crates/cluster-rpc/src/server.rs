//! The server side of a connection between nodes.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use axum::{Extension, Router};
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_net::grpc::{refuse, unary, unary_within};
use steadfast_net::http::serve as serve_http;
use steadfast_net::listen::{Certificate, ConnectionStream};
use steadfast_partition::cluster::{JoinRejection, NodeIdentity};
use steadfast_wire::cluster::{
    HelloRequest, HelloResponse, ProofRequest, ProofResponse, RuntimeMessage, SERVICE,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::credentials::Credentials;
use super::proof::{NONCE_BYTES, ProofSide, Transcript, nonce};
use super::trust::fingerprint;

/// The longest message of an unauthenticated peer.
const STRANGER_BYTES: usize = 64 * 1024;

/// Handles requests of authenticated nodes.
#[async_trait]
pub trait PeerHandler: Send + Sync + 'static {
    /// Handles a request of the node `from`.
    async fn answer(&self, from: &str, request: Bytes) -> Bytes;
}

/// State shared by all connections.
struct ClusterServerState {
    credentials: Credentials,
    certificate: Option<Arc<Certificate>>,
    handler: Arc<dyn PeerHandler>,
}

/// The handshake state of a connection.
#[derive(Default)]
struct Session {
    stage: Mutex<HandshakeStage>,
    proven: CancellationToken,
}

#[derive(Default)]
enum HandshakeStage {
    #[default]
    Unknown,
    /// The peer has named itself but not proven its key.
    Greeted {
        hello: HelloRequest,
        nonce: Bytes,
        certificate: Vec<u8>,
    },
    Proven {
        name: Arc<str>,
    },
}

/// Serves connections of other nodes: returns the handler for a listener.
pub fn serve(
    credentials: Credentials,
    certificate: Option<Arc<Certificate>>,
    host: Arc<dyn PeerHandler>,
    stop: CancellationToken,
) -> impl Fn(ConnectionStream, SocketAddr) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
+ Clone
+ Send
+ Sync
+ 'static {
    let desk = Arc::new(ClusterServerState {
        credentials,
        certificate,
        handler: host,
    });
    let path = format!("{SERVICE}{{method}}");
    let routes = Router::new().route(&path, any(handle)).with_state(desk);
    move |stream, peer| {
        let session = Arc::new(Session::default());
        let routes = routes.clone().layer(Extension(Arc::clone(&session)));
        let serving = serve_http(stream, peer, routes, stop.clone());
        Box::pin(async move {
            let proven = session.proven.clone();
            tokio::pin!(serving);
            let in_time = tokio::time::timeout(limits::HEADER_TIME, async {
                tokio::select! {
                    () = &mut serving => true,
                    () = proven.cancelled() => false,
                }
            });
            match in_time.await {
                Ok(true) => {}
                Ok(false) => serving.await,
                Err(_) => tracing::debug!(event = "cluster.unproven", %peer),
            }
        })
    }
}

async fn handle(
    State(desk): State<Arc<ClusterServerState>>,
    Extension(session): Extension<Arc<Session>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    match method.as_str() {
        "Hello" => {
            unary_within(STRANGER_BYTES, request, move |hello| {
                let (desk, session) = (Arc::clone(&desk), Arc::clone(&session));
                Box::pin(async move { greet(&desk, &session, hello) })
            })
            .await
        }
        "Prove" => {
            unary_within(STRANGER_BYTES, request, move |prove| {
                let (desk, session) = (Arc::clone(&desk), Arc::clone(&session));
                Box::pin(async move { examine(&desk, &session, &prove) })
            })
            .await
        }
        "Ask" => {
            let name = match &*session.stage.lock() {
                HandshakeStage::Proven { name } => Arc::clone(name),
                _ => return refuse(unproven()),
            };
            unary(request, move |parcel: RuntimeMessage| {
                let (desk, name) = (Arc::clone(&desk), Arc::clone(&name));
                Box::pin(async move {
                    let body = desk.handler.answer(&name, parcel.body).await;
                    Ok(RuntimeMessage { body })
                })
            })
            .await
        }
        _ => refuse(Status::unimplemented("there is no such method")),
    }
}

fn unproven() -> Status {
    Status::unauthenticated("STF-7016: prove that you have the cluster key first")
}

/// Checks the peer's identity and returns our proof.
fn greet(
    desk: &ClusterServerState,
    session: &Session,
    hello: HelloRequest,
) -> Result<HelloResponse, Status> {
    let own = &desk.credentials.identity;
    let other = NodeIdentity {
        name: hello.name.clone(),
        address: own.address.clone(),
        cluster: hello.cluster.clone(),
        fingerprint: own.fingerprint,
        protocol: hello.protocol,
        schema: hello.schema,
    };
    if let Some(refused) = JoinRejection::between(own, &other) {
        let why = refused.to_string();
        tracing::warn!(event = "cluster.refused", node = hello.name, why);
        return Err(Status::failed_precondition(why));
    }
    if hello.nonce.len() != NONCE_BYTES || hello.name.len() > limits::NAME_BYTES {
        return Err(Status::invalid_argument(
            "STF-7016: the greeting is malformed",
        ));
    }
    let nonce = nonce().ok_or_else(|| Status::internal("STF-6070: no random bytes"))?;
    let certificate = desk.certificate.as_ref().map(|own| own.leaf());
    let certificate = certificate
        .map(|leaf| fingerprint(&leaf))
        .unwrap_or_default();
    let transcript = Transcript {
        cluster: &own.cluster,
        client: (&hello.name, &hello.nonce),
        server: (&own.name, &nonce),
        certificate: &certificate,
    };
    let welcome = HelloResponse {
        protocol: own.protocol,
        schema: own.schema,
        cluster: own.cluster.clone(),
        name: own.name.clone(),
        proof: transcript.sign(desk.credentials.key(), ProofSide::Server),
        incarnation: Bytes::copy_from_slice(&desk.credentials.incarnation.to_le_bytes()),
        nonce: nonce.clone(),
    };
    *session.stage.lock() = HandshakeStage::Greeted {
        hello,
        nonce,
        certificate,
    };
    Ok(welcome)
}

/// Verifies the peer's proof. Each greeting allows one attempt.
fn examine(
    desk: &ClusterServerState,
    session: &Session,
    prove: &ProofRequest,
) -> Result<ProofResponse, Status> {
    let own = &desk.credentials.identity;
    let stage = std::mem::take(&mut *session.stage.lock());
    let HandshakeStage::Greeted {
        hello,
        nonce,
        certificate,
    } = stage
    else {
        return Err(unproven());
    };
    let transcript = Transcript {
        cluster: &own.cluster,
        client: (&hello.name, &hello.nonce),
        server: (&own.name, &nonce),
        certificate: &certificate,
    };
    let key = desk.credentials.key();
    if !transcript.verify(key, ProofSide::Client, &prove.proof) {
        let why = JoinRejection::Key {
            other: own.name.clone(),
        }
        .to_string();
        tracing::warn!(event = "cluster.refused", node = hello.name, why);
        return Err(Status::unauthenticated(why));
    }
    let name = hello.name.into();
    *session.stage.lock() = HandshakeStage::Proven { name };
    session.proven.cancel();
    steadfast_net::listen::proven();
    Ok(ProofResponse {})
}
