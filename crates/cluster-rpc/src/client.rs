//! The client side of a connection between nodes.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{Request, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use prost::Message;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use steadfast_core::limits;
use steadfast_partition::cluster::{
    ClusterNetwork, ClusterPeer, JoinRejection, NetworkError, NodeIdentity,
};
use steadfast_wire::cluster::{
    HelloRequest, HelloResponse, ProofRequest, ProofResponse, RuntimeMessage, SERVICE,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::credentials::Credentials;
use super::proof::{ProofSide, Transcript, nonce};
use super::trust::{client, fingerprint};

/// Connections to other nodes: one per address, opened on first use.
pub struct ClusterClient {
    credentials: Credentials,
    tls: Option<Arc<ClientConfig>>,
    peers: Mutex<HashMap<String, Arc<PeerEntry>>>,
}

/// The connection to one address.
#[derive(Default)]
struct PeerEntry {
    open: tokio::sync::Mutex<Option<PeerConnection>>,
    /// The number of failed connection attempts, and the last reason.
    failed: Mutex<(u64, String)>,
    /// Why the last request got no response.
    why: Mutex<String>,
}

/// A mutually authenticated connection.
#[derive(Clone)]
struct PeerConnection {
    stub: PeerStub,
    incarnation: u128,
}

/// The time-out of connect and handshake.
const DIAL: Duration = Duration::from_secs(3);

/// The keep-alive interval and time-out that detect a stalled peer.
const PING: Duration = Duration::from_secs(3);

impl ClusterClient {
    /// A client with a node's credentials; encrypted if all nodes are.
    pub fn new(credentials: Credentials, is_encrypted: bool) -> Self {
        Self {
            credentials,
            tls: is_encrypted.then(client),
            peers: Mutex::default(),
        }
    }

    /// Sends a request to the authenticated node at an address, whatever its incarnation;
    /// `None` if no response arrived, although the node may have handled the request.
    pub async fn ask(&self, address: &str, request: Bytes, limit: Duration) -> Option<Bytes> {
        let asking = async {
            let mut connection = self.connection(address, None).await;
            let connection = connection.as_mut().map_err(|why| why.clone())?;
            let asking = connection
                .stub
                .unary("Ask", RuntimeMessage { body: request });
            let asked: Result<RuntimeMessage, Status> = asking.await;
            asked.map_err(|status| status.message().to_owned())
        };
        let why = match tokio::time::timeout(limit, asking).await {
            Ok(Ok(parcel)) => return Some(parcel.body),
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        self.note(address, why);
        self.forget(address).await;
        None
    }

    /// Logs a peer's refusal once: it is permanent until the configuration changes.
    fn note(&self, address: &str, why: String) {
        let line = self.line(address);
        let mut last = line.why.lock();
        if why.starts_with("STF-") && *last != why {
            tracing::warn!(event = "region.refused", address, why);
        } else {
            tracing::debug!(event = "region.not_reached", address, why);
        }
        *last = why;
    }

    fn line(&self, address: &str) -> Arc<PeerEntry> {
        let mut lines = self.peers.lock();
        if lines.len() >= limits::NODES * 2 {
            lines.clear();
        }
        Arc::clone(lines.entry(address.to_owned()).or_default())
    }

    /// A connection to a node, with a given incarnation if one is required.
    async fn connection(
        &self,
        address: &str,
        life: Option<u128>,
    ) -> Result<PeerConnection, String> {
        let line = self.line(address);
        let failures = line.failed.lock().0;
        let mut open = line.open.lock().await;
        let fits = |open: &PeerConnection| life.is_none_or(|life| open.incarnation == life);
        if let Some(connection) = open.as_ref().filter(|open| !open.stub.is_closed())
            && fits(connection)
        {
            return Ok(connection.clone());
        }
        *open = None;
        // A caller that waited for another caller's failed attempt does not dial again.
        let last = line.failed.lock().clone();
        if last.0 != failures {
            return Err(last.1);
        }
        let dialed = tokio::time::timeout(DIAL, self.dial(address)).await;
        let dialed = dialed.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        let connection = dialed.inspect_err(|why| {
            let mut failed = line.failed.lock();
            *failed = (failed.0 + 1, why.clone());
        })?;
        if !fits(&connection) {
            return Err("the node at this address has another incarnation".to_owned());
        }
        *open = Some(connection.clone());
        Ok(connection)
    }

    async fn forget(&self, address: &str) {
        let line = self.peers.lock().get(address).cloned();
        // A locked entry is being dialled: there is no connection to drop.
        if let Some(line) = line
            && let Ok(mut open) = line.open.try_lock()
        {
            *open = None;
        }
    }

    async fn dial(&self, address: &str) -> Result<PeerConnection, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let stream = TcpStream::connect(address).await.map_err(|e| words(&e))?;
        let _ = stream.set_nodelay(true);
        let (mut stub, certificate) = match &self.tls {
            None => (handshake(stream, "http", address).await?, Vec::new()),
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host).map_err(|e| words(&e))?;
                let connector = TlsConnector::from(Arc::clone(tls));
                let stream = connector
                    .connect(name, stream)
                    .await
                    .map_err(|e| words(&e))?;
                let shown = stream.get_ref().1.peer_certificates();
                let leaf = shown.and_then(|chain| chain.first());
                let leaf = leaf.map(|leaf| fingerprint(leaf)).unwrap_or_default();
                (handshake(stream, "https", address).await?, leaf)
            }
        };
        let incarnation = self.introduce(&mut stub, &certificate).await?;
        Ok(PeerConnection { stub, incarnation })
    }

    /// Runs the mutual proof of the cluster key; returns the peer's incarnation.
    async fn introduce(&self, stub: &mut PeerStub, certificate: &[u8]) -> Result<u128, String> {
        let own = &self.credentials.identity;
        let mine = nonce().ok_or("the system has no random bytes")?;
        let hello = HelloRequest {
            protocol: own.protocol,
            schema: own.schema,
            cluster: own.cluster.clone(),
            name: own.name.clone(),
            nonce: mine.clone(),
        };
        let status = |status: Status| status.message().to_owned();
        let welcome: HelloResponse = stub.unary("Hello", hello).await.map_err(status)?;
        let other = NodeIdentity {
            name: welcome.name.clone(),
            address: own.address.clone(),
            cluster: welcome.cluster.clone(),
            fingerprint: own.fingerprint,
            protocol: welcome.protocol,
            schema: welcome.schema,
        };
        if let Some(refused) = JoinRejection::between(own, &other) {
            return Err(refused.to_string());
        }
        let transcript = Transcript {
            cluster: &own.cluster,
            client: (&own.name, &mine),
            server: (&welcome.name, &welcome.nonce),
            certificate,
        };
        let key = self.credentials.key();
        if !transcript.verify(key, ProofSide::Server, &welcome.proof) {
            let other = welcome.name.clone();
            return Err(JoinRejection::Key { other }.to_string());
        }
        let proof = transcript.sign(key, ProofSide::Client);
        let _: ProofResponse = stub
            .unary("Prove", ProofRequest { proof })
            .await
            .map_err(status)?;
        let incarnation = welcome.incarnation[..].try_into();
        let malformed = |_| "STF-7016: the greeting is malformed".to_owned();
        incarnation.map(u128::from_le_bytes).map_err(malformed)
    }
}

#[async_trait]
impl ClusterNetwork for ClusterClient {
    async fn send(
        &self,
        to: &ClusterPeer,
        request: Bytes,
        limit: Duration,
    ) -> Result<Bytes, NetworkError> {
        let life = Some(to.owner.incarnation);
        let connection = tokio::time::timeout(limit, self.connection(&to.address, life)).await;
        let connection = connection.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        let mut connection = connection.map_err(NetworkError::Unsent)?;
        let asking = connection
            .stub
            .unary("Ask", RuntimeMessage { body: request });
        let asked: Result<Result<RuntimeMessage, Status>, _> =
            tokio::time::timeout(limit, asking).await;
        let status = match asked {
            Ok(Ok(parcel)) => return Ok(parcel.body),
            Ok(Err(status)) => status,
            Err(_) => return Err(NetworkError::Unknown("no answer in time".to_owned())),
        };
        self.forget(&to.address).await;
        let why = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated | Code::Unimplemented => Err(NetworkError::Unsent(why)),
            _ if was_not_sent(&status) => Err(NetworkError::Unsent(why)),
            _ => Err(NetworkError::Unknown(why)),
        }
    }
}

/// Whether a request never left: its connection had ended before.
fn was_not_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled();
        }
        cause = error.source();
    }
    false
}

/// One HTTP/2 connection, for gRPC.
#[derive(Clone)]
struct PeerStub {
    sender: SendRequest<Body>,
    origin: Uri,
}

async fn handshake<S>(stream: S, scheme: &str, address: &str) -> Result<PeerStub, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(event = "cluster.connection_ended", %error);
        }
    });
    let origin = format!("{scheme}://{address}").parse();
    let origin = origin.map_err(|_| format!("{address} is not an address"))?;
    Ok(PeerStub { sender, origin })
}

impl PeerStub {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    async fn unary<Q, A>(&mut self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(format!("{SERVICE}{method}"));
        let path = path.map_err(|_| Status::internal("the path is malformed"))?;
        let origin = self.origin.clone();
        let grpc = Grpc::with_origin(self.clone(), origin);
        let mut grpc = grpc.max_decoding_message_size(limits::GRPC_MESSAGE_BYTES);
        let codec = ProstCodec::<Q, A>::default();
        let asked = grpc.unary(tonic::Request::new(message), path, codec).await;
        asked.map(tonic::Response::into_inner)
    }
}

impl Service<Request<Body>> for PeerStub {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
