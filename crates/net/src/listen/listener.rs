//! A bounded number of connections, each in a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use steadfast_core::limits;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::{Error, ErrorKind};
use super::governor::{Admission, Governor};
use super::port_holder::holder_of;
use super::stream::{ConnectionPermit, ConnectionStream, StreamTransport};
use super::tls::TlsSocket;

/// Time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long to wait when the process has no more file descriptors.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Backlog of the kernel: connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Longest segment on every connection. A client of Event Hubs writes the options
/// of its socket back, and the kernel refuses the 32,768 that it reports itself.
#[cfg(target_os = "linux")]
const SEGMENT_BYTES: u32 = 32_767;

/// Options of a listener.
pub struct ListenerOptions {
    pub address: SocketAddr,
    /// `None`: not encrypted.
    pub tls: Option<Arc<ServerConfig>>,
    /// Maximum number of concurrent connections. A further one displaces the oldest
    /// unproven connection, or waits.
    pub connections: usize,
}

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    permits: Arc<Semaphore>,
    governor: Arc<Governor>,
}

impl Listener {
    /// Binds and listens. If the port is in use, the error names the process.
    pub fn bind(bind: ListenerOptions) -> Result<Self, Error> {
        let address = bind.address;
        let socket = open(address).map_err(|error| refused(address, error))?;
        let address = socket
            .local_addr()
            .map_err(|error| refused(address, error))?;
        Ok(Self {
            socket,
            address,
            tls: bind.tls.map(TlsAcceptor::from),
            permits: Arc::new(Semaphore::new(bind.connections.min(limits::CONNECTIONS))),
            governor: Arc::default(),
        })
    }

    /// Shares a governor with other ports.
    #[must_use]
    pub fn with_governor(mut self, governor: &Arc<Governor>) -> Self {
        self.governor = Arc::clone(governor);
        self
    }

    /// The bound address; the port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Hands every connection to `serve`, in a task of `tasks`, until `stop`. A connection
    /// that is not authenticated in time is closed.
    pub async fn run<S, F>(self, stop: CancellationToken, tasks: TaskTracker, serve: S)
    where
        S: Fn(ConnectionStream, SocketAddr) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let accepting = self.accept_all(&stop, &tasks, serve);
        tokio::select! {
            () = accepting => {}
            () = self.governor.expire() => {}
        }
    }

    async fn accept_all<S, F>(&self, stop: &CancellationToken, tasks: &TaskTracker, serve: S)
    where
        S: Fn(ConnectionStream, SocketAddr) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut failures: u64 = 0;
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = self.accept() => accepted,
            };
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_client(&error) => continue,
                Err(error) => {
                    failures += 1;
                    // A shortage lasts, so only some of the failures are logged.
                    if failures.is_power_of_two() {
                        let address = self.address;
                        tracing::warn!(event = "listen.accept_failed", %address, failures, %error);
                    }
                    // There is no notification for a free descriptor.
                    let _ = tokio::time::timeout(SHORTAGE, stop.cancelled()).await;
                    continue;
                }
            };
            let (tls, serve) = (self.tls.clone(), serve.clone());
            tasks.spawn(serve_one(accepted, tls, serve));
        }
    }

    /// Accepts the next connection once the port has a free permit.
    async fn accept(&self) -> io::Result<AcceptedConnection> {
        let (connection, peer) = self.socket.accept().await?;
        // If the connection has closed already, the first read fails.
        let _ = connection.set_nodelay(true);
        let permits = Arc::clone(&self.permits);
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.governor.displace(self.address.port());
                permits.acquire_owned().await.expect("it is never closed")
            }
        };
        self.governor.wait_for_capacity().await;
        let admission = self.governor.admit(peer.ip(), self.address.port());
        Ok(AcceptedConnection {
            connection,
            peer,
            place: ConnectionPermit::new(admission, Some(permit)),
        })
    }
}

struct AcceptedConnection {
    connection: TcpStream,
    peer: SocketAddr,
    place: ConnectionPermit,
}

/// Serves a connection until it ends, or its governor ends it.
async fn serve_one<S, F>(accepted: AcceptedConnection, tls: Option<TlsAcceptor>, serve: S)
where
    S: Fn(ConnectionStream, SocketAddr) -> F,
    F: Future<Output = ()>,
{
    let AcceptedConnection {
        connection,
        peer,
        place,
    } = accepted;
    let admission = place.admission().clone();
    // Boxed, because each future around it would reserve its size twice: before and after
    // it is pinned. Tasks are aligned to 128 bytes: of large ones glibc returns less memory.
    let serving = Box::pin(async move {
        if let Some(connection) = encrypt(tls, connection, &place, peer).await {
            serve(ConnectionStream::new(connection, place), peer).await;
        }
    });
    serve_admitted(admission, serving).await;
}

/// Serves one end of a pipe as a port serves a connection, for tests without sockets.
/// A port also runs [`Governor::expire`].
pub async fn serve_pipe<S, F>(
    governor: &Arc<Governor>,
    pipe: DuplexStream,
    peer: SocketAddr,
    serve: S,
) where
    S: FnOnce(ConnectionStream, SocketAddr) -> F,
    F: Future<Output = ()>,
{
    let admission = governor.admit(peer.ip(), peer.port());
    let place = ConnectionPermit::new(admission.clone(), None);
    let stream = ConnectionStream::new(Either::Right(Either::Right(pipe)), place);
    serve_admitted(admission, serve(stream, peer)).await;
}

async fn serve_admitted(admission: Admission, serving: impl Future<Output = ()>) {
    let _task = admission.task();
    let mut serving = std::pin::pin!(admission.clone().serve(serving));
    let serving = std::future::poll_fn(|context| {
        admission.begin_turn();
        serving.as_mut().poll(context)
    });
    tokio::select! {
        () = serving => {}
        () = admission.wait_until_over() => {}
    }
}

/// Whether the error concerns only the connection that was being accepted.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn encrypt(
    tls: Option<TlsAcceptor>,
    connection: TcpStream,
    place: &ConnectionPermit,
    peer: SocketAddr,
) -> Option<StreamTransport> {
    let Some(tls) = tls else {
        return Some(Either::Left(connection));
    };
    let socket = TlsSocket::new(connection, place.admission().clone());
    let accepting = Box::pin(tls.accept(socket));
    match tokio::time::timeout(HANDSHAKE, accepting).await {
        Ok(Ok(mut stream)) => {
            stream.get_mut().0.agreed();
            Some(Either::Right(Either::Left(Box::new(stream))))
        }
        Ok(Err(error)) => {
            tracing::debug!(event = "listen.handshake_failed", %peer, %error);
            None
        }
        Err(_) => {
            tracing::debug!(event = "listen.handshake_failed", %peer, error = "time-out");
            None
        }
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_mss(SEGMENT_BYTES)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn refused(address: SocketAddr, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::AddrInUse => ErrorKind::PortInUse {
            address,
            holder: holder_of(address.port()),
        },
        _ => ErrorKind::Address { address },
    };
    Error::new(kind, Some(error))
}
