//! A TCP proxy on loopback that injects faults.
//!
//! - Bytes keep their order and content; faults change when and whether they arrive.
//! - Each direction of a connection holds at most `MAX_CHUNKS` chunks; then the sender waits.
//! - Faults apply at once to connections that exist. Dropping the proxy closes them all.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

const CHUNK_BYTES: usize = 16 * 1024;

/// Chunks on their way in one direction of a connection.
const MAX_CHUNKS: usize = 64;

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;

/// A throttled direction sends this many pieces a second.
const PIECES_PER_SECOND: u64 = 20;

/// A way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server behind the proxy.
    ToUpstream,
    /// From the server back to the client.
    ToClient,
}

/// A listening proxy; it ends when dropped.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    task: AbortHandle,
}

impl FaultProxy {
    /// Listens on a free loopback port and forwards to `upstream`.
    pub async fn start(upstream: SocketAddr) -> io::Result<FaultProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyState::new(upstream));
        let task = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(FaultProxy {
            address,
            shared,
            task,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to another server, such as a restarted one.
    pub fn route(&self, upstream: SocketAddr) {
        self.change(|faults| faults.upstream = upstream);
    }

    /// Resets all current connections.
    pub fn cut(&self) {
        self.change(|faults| faults.cuts += 1);
    }

    /// Resets all current connections after this many further bytes, of all connections and
    /// directions.
    pub fn cut_after_bytes(&self, bytes: u64) {
        self.change(|faults| faults.bytes_left = Some(bytes));
        self.shared.cut_if_due();
    }

    /// Accepts new connections only to reset them.
    pub fn refuse(&self, refuse: bool) {
        self.change(|faults| faults.refuse = refuse);
    }

    /// Stops all bytes, both ways; connections stay open and new ones are accepted.
    pub fn freeze(&self, freeze: bool) {
        self.change(|faults| faults.frozen = freeze);
    }

    /// Delays the bytes of one direction from now on.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.change(|faults| faults.delays[direction as usize] = delay);
    }

    /// Bounds the bytes a second in each direction of each connection.
    pub fn throttle(&self, bytes_per_second: Option<u64>) {
        self.change(|faults| faults.bytes_per_second = bytes_per_second.map(|rate| rate.max(1)));
    }

    /// Bytes delivered in a direction so far.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.delivered[direction as usize].load(Ordering::Relaxed)
    }

    /// Connections accepted so far, refused ones included.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Waits until exactly this many connections are open.
    pub async fn wait_for_open(&self, connections: usize) {
        let mut open = self.shared.open.subscribe();
        // The sender lives as long as `self`.
        let _ = open.wait_for(|open| *open == connections).await;
    }

    fn change(&self, change: impl FnOnce(&mut ProxyFaults)) {
        self.shared.faults.send_modify(change);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct ProxyFaults {
    upstream: SocketAddr,
    cuts: u64,
    refuse: bool,
    frozen: bool,
    delays: [Duration; 2],
    bytes_per_second: Option<u64>,
    /// Bytes until the next cut.
    bytes_left: Option<u64>,
}

/// What all connections of a proxy share.
struct ProxyState {
    faults: watch::Sender<ProxyFaults>,
    open: watch::Sender<usize>,
    accepted: AtomicU64,
    delivered: [AtomicU64; 2],
}

impl ProxyState {
    fn new(upstream: SocketAddr) -> ProxyState {
        let faults = ProxyFaults {
            upstream,
            cuts: 0,
            refuse: false,
            frozen: false,
            delays: [Duration::ZERO; 2],
            bytes_per_second: None,
            bytes_left: None,
        };
        ProxyState {
            faults: watch::Sender::new(faults),
            open: watch::Sender::new(0),
            accepted: AtomicU64::new(0),
            delivered: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Takes up to `wanted` of the bytes left until the next cut; none for a connection
    /// that was cut.
    fn take(&self, wanted: usize, cuts: u64) -> usize {
        let mut taken = wanted;
        self.faults.send_if_modified(|faults| {
            if faults.cuts != cuts {
                taken = 0;
            } else if let Some(left) = &mut faults.bytes_left {
                taken = wanted.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
            }
            false
        });
        taken
    }

    /// Cuts all connections if no byte is left until the cut.
    fn cut_if_due(&self) {
        self.faults.send_if_modified(|faults| {
            let due = faults.bytes_left == Some(0);
            if due {
                faults.bytes_left = None;
                faults.cuts += 1;
            }
            due
        });
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                if let Ok((client, _)) = accepted {
                    shared.accepted.fetch_add(1, Ordering::Relaxed);
                    let open = ProxiedConnection::new(shared.clone());
                    connections.spawn(async move { open.serve(client).await });
                }
            }
        }
    }
}

/// One connection, counted while it is open.
struct ProxiedConnection {
    shared: Arc<ProxyState>,
    faults: watch::Receiver<ProxyFaults>,
    /// The number of cuts before this connection.
    cuts: u64,
}

impl ProxiedConnection {
    fn new(shared: Arc<ProxyState>) -> ProxiedConnection {
        shared.open.send_modify(|open| *open += 1);
        let faults = shared.faults.subscribe();
        let cuts = faults.borrow().cuts;
        ProxiedConnection {
            shared,
            faults,
            cuts,
        }
    }

    async fn serve(self, mut client: TcpStream) -> io::Result<()> {
        let faults = self.faults.borrow().clone();
        if faults.refuse {
            return client.set_zero_linger();
        }
        let Ok(mut upstream) = TcpStream::connect(faults.upstream).await else {
            return client.set_zero_linger();
        };
        let mut later = self.faults.clone();
        let orderly = tokio::select! {
            carried = self.carry(&mut client, &mut upstream) => carried.is_ok(),
            _ = later.wait_for(|later| later.cuts != self.cuts) => false,
        };
        if !orderly {
            // Without linger, closing is a reset.
            client.set_zero_linger()?;
            upstream.set_zero_linger()?;
        }
        Ok(())
    }

    async fn carry(&self, client: &mut TcpStream, upstream: &mut TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        upstream.set_nodelay(true)?;
        let (from_client, to_client) = client.split();
        let (from_upstream, to_upstream) = upstream.split();
        tokio::try_join!(
            self.one_way(Direction::ToUpstream, from_client, to_upstream),
            self.one_way(Direction::ToClient, from_upstream, to_client),
        )?;
        Ok(())
    }

    async fn one_way(
        &self,
        direction: Direction,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
    ) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS);
        tokio::try_join!(
            self.read(direction, from, sender),
            self.write(direction, receiver, to),
        )?;
        Ok(())
    }

    async fn read(
        &self,
        direction: Direction,
        mut from: ReadHalf<'_>,
        chunks: mpsc::Sender<Chunk>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            self.thawed().await;
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let due = Instant::now() + self.faults.borrow().delays[direction as usize];
            let bytes = buffer[..length].to_vec();
            if chunks.send(Chunk { due, bytes }).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn write(
        &self,
        direction: Direction,
        mut chunks: mpsc::Receiver<Chunk>,
        mut to: WriteHalf<'_>,
    ) -> io::Result<()> {
        while let Some(chunk) = chunks.recv().await {
            sleep_until(chunk.due).await;
            let mut rest = &chunk.bytes[..];
            while !rest.is_empty() {
                let sent = self.deliver(direction, rest, &mut to).await?;
                rest = &rest[sent..];
            }
        }
        self.thawed().await;
        to.shutdown().await
    }

    /// Sends as many bytes as one step allows.
    async fn deliver(
        &self,
        direction: Direction,
        bytes: &[u8],
        to: &mut WriteHalf<'_>,
    ) -> io::Result<usize> {
        self.thawed().await;
        let rate = self.faults.borrow().bytes_per_second;
        let piece = self.shared.take(piece_bytes(bytes.len(), rate), self.cuts);
        if piece == 0 {
            // The cut is in progress and ends this connection.
            std::future::pending::<()>().await;
        }
        to.write_all(&bytes[..piece]).await?;
        self.shared.delivered[direction as usize].fetch_add(piece as u64, Ordering::Relaxed);
        self.shared.cut_if_due();
        if let Some(rate) = rate {
            sleep(Duration::from_secs_f64(piece as f64 / rate as f64)).await;
        }
        Ok(piece)
    }

    async fn thawed(&self) {
        // The sender lives as long as `self.shared`.
        let _ = self.faults.clone().wait_for(|faults| !faults.frozen).await;
    }
}

impl Drop for ProxiedConnection {
    fn drop(&mut self) {
        self.shared.open.send_modify(|open| *open -= 1);
    }
}

/// Bytes on their way.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// How many bytes go in one step, so that a throttled stream flows evenly.
fn piece_bytes(available: usize, rate: Option<u64>) -> usize {
    let Some(rate) = rate else {
        return available;
    };
    let piece = (rate / PIECES_PER_SECOND).max(1);
    available.min(usize::try_from(piece).unwrap_or(usize::MAX))
}
