//! Ports for servers that start later, or come back.
//!
//! A port that the system gave away and that is free again may become the local end of any
//! connection before the server listens there. These ports lie below the range that Linux
//! uses for that, and a locked file reserves each for the process that took it, until that
//! process ends.

use std::fs::File;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, bail};

/// The first port, and how many there are: those of our own servers lie outside.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// The locks of this process. The system releases them when it ends.
static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// The port at which the next search starts. Processes begin at different places, so
/// they seldom meet.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that no other process reserves and no server listens at.
pub fn reserve_port() -> anyhow::Result<u16> {
    let folder = std::env::temp_dir().join("steadfast-ports");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let start = (std::process::id() % 500) as u16 * 20;
    for _ in 0..COUNT {
        let place = start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + place % COUNT;
        let path = folder.join(port.to_string());
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        let is_free = file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free {
            let mut reserved = RESERVED.lock().expect("no thread panics while it pushes");
            reserved.push(file);
            return Ok(port);
        }
    }
    bail!("all ports from {FIRST} on are taken")
}
