//! Automatic failover, as a cluster manager does it.
//!
//! The manager probes the primary a few times a second. After several missed probes in
//! a row it promotes by the rule; while only one standby is left it promotes none. It
//! rebuilds a former primary or a dead server as a standby.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::cluster::PostgresCluster;

/// The time-out of a probe, and the missed probes that cause a failover.
const PROBE: Duration = Duration::from_millis(700);
const MISSES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// The request for encryption of a client, which any server answers.
const QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Manages a cluster until it is dropped.
pub struct Manager {
    cluster: Arc<Mutex<PostgresCluster>>,
    failovers: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Starts to manage a cluster.
    pub fn start(cluster: PostgresCluster) -> anyhow::Result<Manager> {
        let cluster = Arc::new(Mutex::new(cluster));
        let (failovers, stop) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let watched = (
            Arc::clone(&cluster),
            Arc::clone(&failovers),
            Arc::clone(&stop),
        );
        let thread = thread::Builder::new().name("failover manager".into());
        let thread = thread.spawn(move || watch(&watched.0, &watched.1, &watched.2))?;
        Ok(Manager {
            cluster,
            failovers,
            stop,
            thread: Some(thread),
        })
    }

    /// The cluster; the manager waits while another thread holds the lock.
    pub fn cluster(&self) -> MutexGuard<'_, PostgresCluster> {
        lock(&self.cluster)
    }

    /// How often it has promoted a standby.
    pub fn failovers(&self) -> u32 {
        self.failovers.load(Ordering::SeqCst)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

fn lock(cluster: &Mutex<PostgresCluster>) -> MutexGuard<'_, PostgresCluster> {
    cluster.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(cluster: &Mutex<PostgresCluster>, failovers: &AtomicU32, stop: &AtomicBool) {
    let mut missed = 0;
    while !stop.load(Ordering::SeqCst) {
        let port = {
            let mut cluster = lock(cluster);
            let primary = cluster.primary();
            cluster.server(primary).port()
        };
        // Not under the lock: threads that kill and freeze servers must not wait.
        missed = if answers(port) { 0 } else { missed + 1 };
        if missed >= MISSES {
            // With a single survivor this is refused, and retried. A promotion counts
            // even if the other standby could not follow it.
            let mut cluster = lock(cluster);
            let before = cluster.primary();
            if cluster.promote_by_rule().is_ok() || cluster.primary() != before {
                failovers.fetch_add(1, Ordering::SeqCst);
                missed = 0;
            }
        } else if missed == 0 {
            repair(&mut lock(cluster));
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a server responds. A dead one refuses the connection; a frozen one accepts
/// it and stays silent.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let asked = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.write_all(&QUESTION)?;
        stream.read_exact(&mut [0])
    };
    asked().is_ok()
}

/// Rebuilds dead servers, and those that believe they are the primary.
fn repair(cluster: &mut PostgresCluster) {
    for index in cluster.standbys() {
        let server = cluster.server(index);
        let is_standby = if server.is_running() {
            if !answers(server.port()) {
                continue;
            }
            match server.sql("select pg_is_in_recovery()") {
                Ok(answer) => answer == "t",
                // A server too busy to answer is left alone.
                Err(_) => continue,
            }
        } else {
            false
        };
        // A failed rebuild is retried in the next round.
        if !is_standby && cluster.rebuild(index).is_err() {
            return;
        }
    }
}
