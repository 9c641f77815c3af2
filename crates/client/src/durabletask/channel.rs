//! One HTTP/2 connection to a server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use steadfast_core::limits;
use steadfast_wire::durabletask::MESSAGE_BYTES;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tonic::Status;
use tonic::body::Body;

use super::generated::task_hub_sidecar_service_client::TaskHubSidecarServiceClient;
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

/// The methods of a task hub. Clones share one connection.
pub(super) type TaskHubService = TaskHubSidecarServiceClient<TaskHubChannel>;

/// Calls a method of a [`TaskHubService`] with a request.
macro_rules! method {
    ($name:ident) => {
        |mut service: TaskHubService, request| async move { service.$name(request).await }
    };
}
pub(super) use method;

/// A connection to a task hub, opened on first use and reopened when it was lost.
#[derive(Clone)]
pub(super) struct TaskHubChannel {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    /// The headers of every request.
    headers: HeaderMap,
    connection: Mutex<Option<SendRequest<Body>>>,
}

/// The methods of a task hub. A worker gives its name.
pub(super) fn connect(target: Target, worker: Option<&str>) -> Result<TaskHubService, Status> {
    let origin = target.origin.clone();
    let channel = TaskHubChannel::new(target, worker)?;
    Ok(TaskHubService::with_origin(channel, origin)
        .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES)
        .max_encoding_message_size(limits::GRPC_MESSAGE_BYTES))
}

impl TaskHubChannel {
    fn new(target: Target, worker: Option<&str>) -> Result<Self, Status> {
        let text = |text: &str| {
            HeaderValue::try_from(text).map_err(|_| Status::invalid_argument("a header is no text"))
        };
        let mut headers = HeaderMap::new();
        headers.insert("taskhub", text(&target.hub)?);
        if let Some(key) = &target.key {
            headers.insert(AUTHORIZATION, text(&format!("Bearer {key}"))?);
        }
        if let Some(worker) = worker {
            headers.insert("workerid", text(worker)?);
            headers.insert(MESSAGE_BYTES, limits::GRPC_MESSAGE_BYTES.into());
        }
        let inner = Inner {
            target,
            headers,
            connection: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The connection, reopened if it was lost.
    async fn connection(&self) -> Result<SendRequest<Body>, Status> {
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

    async fn send(self, mut request: Request<Body>) -> Result<Response<Incoming>, TransportError> {
        let headers = self.inner.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.clone()));
        request.headers_mut().extend(headers);
        let mut connection = self.connection().await?;
        let ready = connection.ready().await;
        ready.map_err(|error| unreachable(&self.inner.target, &error))?;
        Ok(connection.send_request(request).await?)
    }
}

impl tower::Service<Request<Body>> for TaskHubChannel {
    type Response = Response<Incoming>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

fn unreachable(target: &Target, error: &(dyn std::error::Error + 'static)) -> Status {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Status::unavailable(format!("{} cannot be reached: {text}", target.origin))
}

type TransportError = Box<dyn std::error::Error + Send + Sync>;

async fn dial(target: &Target) -> Result<SendRequest<Body>, TransportError> {
    let stream = TcpStream::connect((target.host(), target.port())).await?;
    stream.set_nodelay(true)?;
    if !target.is_encrypted() {
        return shake_hands(stream).await;
    }
    let name = ServerName::try_from(target.host().to_owned())?;
    let connector = TlsConnector::from(Arc::new(encryption(target)?));
    shake_hands(connector.connect(name, stream).await?).await
}

fn encryption(target: &Target) -> Result<ClientConfig, TransportError> {
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

async fn shake_hands<S>(stream: S) -> Result<SendRequest<Body>, TransportError>
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
