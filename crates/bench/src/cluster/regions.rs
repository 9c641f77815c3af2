//! Commits in one region, and mirrored to another.
//!
//! Both regions are folders of this machine and communicate over loopback, so the
//! figures show the cost of a mirror without the latency between regions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::SystemClock;
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::{Engine, Ledger, Options, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use steadfast_storage_replicated::mirror::{
    CopyRequest, CopyResponse, LeaderLease, Mirror, MirrorFollower, PeerRegion,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::settings::{KEYS, Settings};
use crate::disk;
use crate::report::Report;
use crate::writers::{commit_for, rate};

const PARTITIONS: u16 = 4;

/// The tenure of the owner, longer than any run.
const TENURE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let single = EngineFolder::open().await?;
    let store = Store::start(Arc::clone(&single.engine), Options::new(owner()));
    let alone = acquire(&store).await?;
    let pair = RegionCopyBench::start().await?;
    for clients in [3, 300] {
        let mut without = commit_for(&alone, KEYS, clients, settings.duration()).await?;
        let mut with = commit_for(&pair.ledgers, KEYS, clients, settings.duration()).await?;
        let mut figure = |name: &str, value| {
            let name = format!("{name}_{clients}_clients");
            report.figures.record(name, value);
        };
        let (one, two) = (rate(&without), rate(&with));
        figure("region_commits_per_s_no_mirror", one);
        figure("region_commits_per_s_mirror", two);
        figure("region_mirror_over_no_mirror", two / one);
        figure(
            "region_commit_no_mirror_p50_us",
            without.0.percentile_us(50.0),
        );
        figure("region_commit_mirror_p50_us", with.0.percentile_us(50.0));
        figure("region_commit_mirror_p99_us", with.0.percentile_us(99.0));
    }
    drop(alone);
    store.close().await;
    pair.end().await;
    Ok(())
}

fn owner() -> Owner {
    Owner {
        node: 1,
        incarnation: 1,
    }
}

fn partitions() -> Vec<Partition> {
    let all = 0..PARTITIONS;
    all.map(|index| Partition::new(1, index)).collect()
}

async fn acquire(store: &Store) -> Result<Vec<Ledger>> {
    let mut ledgers = Vec::new();
    for partition in partitions() {
        ledgers.push(store.acquire(partition).await?);
    }
    Ok(ledgers)
}

/// An engine in a temporary folder.
struct EngineFolder {
    engine: Arc<dyn Engine>,
    _folder: TempDir,
}

impl EngineFolder {
    async fn open() -> Result<Self> {
        let folder = disk::temporary(Path::new("."))?;
        let path = folder.path().join("data");
        let opening = tokio::task::spawn_blocking(move || {
            LocalEngine::open(&path, &local::Options::default())
        });
        Ok(Self {
            engine: Arc::new(opening.await??),
            _folder: folder,
        })
    }
}

/// An owner, and the region that mirrors it.
struct RegionCopyBench {
    ledgers: Vec<Ledger>,
    store: Store,
    following: AbortHandle,
    _places: [EngineFolder; 2],
}

impl RegionCopyBench {
    async fn start() -> Result<Self> {
        let (own, other) = (EngineFolder::open().await?, EngineFolder::open().await?);
        let beyond = Store::start(Arc::clone(&other.engine), Options::new(owner()));
        let follower = MirrorFollower::new(Arc::clone(&other.engine), beyond, partitions());
        follower.initialize().await?;
        follower.open(0).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let line = TcpStream::connect(listener.local_addr()?).await?;
        line.set_nodelay(true)?;
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let following = tokio::spawn(follow(follower, stream)).abort_handle();
        let seat = Arc::new(LeaderLease::new(Arc::new(SystemClock::new())));
        let pair = Arc::new(LoopbackRegion(Mutex::new(line)));
        let mirror = Mirror::new(Arc::clone(&own.engine), Arc::clone(&seat), pair);
        let mirror = Arc::new(mirror);
        seat.acquire(1, seat.now() + TENURE);
        let mut options = Options::new(owner());
        options.lease = Some(seat.lease());
        let store = Store::start(Arc::clone(&mirror) as _, options);
        let ledgers = acquire(&store).await?;
        let copied = mirror.copy_all(&store, ledgers.len()).await;
        copied.map_err(anyhow::Error::msg).context("copy all")?;
        Ok(Self {
            ledgers,
            store,
            following,
            _places: [own, other],
        })
    }

    async fn end(self) {
        drop(self.ledgers);
        self.store.close().await;
        self.following.abort();
    }
}

/// The connection to the other region; copies are sent one after the other.
struct LoopbackRegion(Mutex<TcpStream>);

#[async_trait]
impl PeerRegion for LoopbackRegion {
    async fn copy(&self, copy: &CopyRequest) -> Option<CopyResponse> {
        let mut stream = self.0.lock().await;
        send(&mut stream, &copy.encode()).await.ok()?;
        let reply = receive(&mut stream).await.ok()?;
        CopyResponse::decode(reply).ok()
    }
}

/// Applies copies until the connection closes.
async fn follow(follower: MirrorFollower, mut stream: TcpStream) -> Result<()> {
    loop {
        let copy = receive(&mut stream).await?;
        let copy = CopyRequest::decode(copy).map_err(|_| anyhow::anyhow!("malformed"))?;
        let reply = follower.apply(copy).await;
        send(&mut stream, &reply.encode()).await?;
    }
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    let mut message = (bytes.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(bytes);
    Ok(stream.write_all(&message).await?)
}

async fn receive(stream: &mut TcpStream) -> Result<Bytes> {
    let length = stream.read_u32_le().await?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes.into())
}
