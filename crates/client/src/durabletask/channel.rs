//! One HTTP/2 connection to a server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use steadfast_core::limits;
use steadfast_wire::durabletask::MESSAGE_BYTES;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::target::Target;

/// How long opening a connection may take.
const DIAL: Duration = Duration::from_secs(10);
/// The keep-alive interval of a silent connection, and the time-out after which it is
/// closed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// Flow-control windows for data that is received but not read.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// A channel to a task hub. Clones share one connection.
#[derive(Clone)]
pub(super) struct TaskHubChannel {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    /// The metadata of every request.
    metadata: Vec<(&'static str, AsciiMetadataValue)>,
    connection: Mutex<Option<SendRequest<tonic::body::Body>>>,
}

impl TaskHubChannel {
    /// A channel that connects on first use. A worker gives its name.
    pub(super) fn new(target: Target, worker: Option<&str>) -> Result<Self, Status> {
        let text = |text: &str| {
            AsciiMetadataValue::try_from(text)
                .map_err(|_| Status::invalid_argument("a header is no text"))
        };
        let mut metadata = vec![("taskhub", text(&target.hub)?)];
        if let Some(key) = &target.key {
            metadata.push(("authorization", text(&format!("Bearer {key}"))?));
        }
        if let Some(worker) = worker {
            metadata.push(("workerid", text(worker)?));
            let longest = limits::GRPC_MESSAGE_BYTES.to_string();
            metadata.push((MESSAGE_BYTES, text(&longest)?));
        }
        let inner = Inner {
            target,
            metadata,
            connection: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// A unary call.
    pub(super) async fn one<Q, A>(&self, method: &'static str, message: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(self.request(message), path(method), codec);
        answer.await.map(tonic::Response::into_inner)
    }

    /// A server-streaming call.
    pub(super) async fn many<Q, A>(
        &self,
        method: &'static str,
        message: Q,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answers = grpc.server_streaming(self.request(message), path(method), codec);
        answers.await.map(tonic::Response::into_inner)
    }

    fn request<Q>(&self, message: Q) -> tonic::Request<Q> {
        let mut request = tonic::Request::new(message);
        for (name, value) in &self.inner.metadata {
            request.metadata_mut().insert(*name, value.clone());
        }
        request
    }

    async fn grpc(&self) -> Result<Grpc<GrpcTransport>, Status> {
        let pipe = GrpcTransport(self.connection().await?);
        let origin = self.inner.target.origin.clone();
        let mut grpc = Grpc::with_origin(pipe, origin)
            .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES)
            .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES);
        let ready = grpc.ready().await;
        ready.map_err(|error| unreachable(&self.inner.target, &error))?;
        Ok(grpc)
    }

    /// The connection, reopened if it was lost.
    async fn connection(&self) -> Result<SendRequest<tonic::body::Body>, Status> {
        let mut connection = self.inner.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        let target = &self.inner.target;
        let opened = tokio::time::timeout(DIAL, dial(target)).await;
        let late = |_| Status::unavailable(format!("{} does not answer", target.origin));
        let opened = opened.map_err(late)?;
        let opened = opened.map_err(|error| unreachable(target, &*error))?;
        *connection = Some(opened.clone());
        Ok(opened)
    }
}

fn path(method: &'static str) -> PathAndQuery {
    let path = format!("/TaskHubSidecarService/{method}");
    PathAndQuery::try_from(path).unwrap_or(PathAndQuery::from_static("/"))
}

fn unreachable(target: &Target, error: &(dyn std::error::Error + 'static)) -> Status {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Status::unavailable(format!("{} cannot be reached: {text}", target.origin))
}

type DialError = Box<dyn std::error::Error + Send + Sync>;

async fn dial(target: &Target) -> Result<SendRequest<tonic::body::Body>, DialError> {
    let stream = TcpStream::connect((target.host(), target.port())).await?;
    stream.set_nodelay(true)?;
    if !target.is_encrypted() {
        return shake_hands(stream).await;
    }
    let name = ServerName::try_from(target.host().to_owned())?;
    let connector = TlsConnector::from(Arc::new(encryption(target)?));
    shake_hands(connector.connect(name, stream).await?).await
}

fn encryption(target: &Target) -> Result<ClientConfig, DialError> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let mut config = match &target.authorities {
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(file)? {
                roots.add(certificate?)?;
            }
            config.with_root_certificates(roots).with_no_client_auth()
        }
        None => {
            let verifier = rustls_platform_verifier::Verifier::new(provider)?;
            let config = config.dangerous();
            let config = config.with_custom_certificate_verifier(Arc::new(verifier));
            config.with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

async fn shake_hands<S>(stream: S) -> Result<SendRequest<tonic::body::Body>, DialError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // Requests in flight fail with this error.
        if let Err(error) = connection.await {
            tracing::debug!(event = "durable.connection_lost", %error);
        }
    });
    Ok(sender)
}

/// A connection as a tonic transport.
struct GrpcTransport(SendRequest<tonic::body::Body>);

impl tower::Service<Request<tonic::body::Body>> for GrpcTransport {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
