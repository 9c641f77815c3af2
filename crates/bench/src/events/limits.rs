//! The limits of the disk and the loopback device.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use super::settings::Settings;
use crate::disk::{LogFile, write_batches};
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// How long each limit is measured.
const LOOK: Duration = Duration::from_millis(500);

/// Bytes of a file that is written in batches, each synced.
const WRITTEN: u64 = 64 * 1024 * 1024;

const CHUNK: usize = 256 * 1024;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let mut syncs = LogFile::create(folder.path())?.sync_for(LOOK)?;
    let written = write_batches(&folder.path().join("batches"), WRITTEN)?;
    let limits = &mut report.limits;
    limits.record("fdatasync_p50_us", syncs.percentile_us(50.0));
    limits.record("fdatasync_p99_us", syncs.percentile_us(99.0));
    limits.record("disk_synced_mb_s", written / 1e6);
    limits.record("loopback_mb_s", loopback()? / 1e6);
    Ok(())
}

/// Bytes per second from one thread to another over a socket.
fn loopback() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let reader = std::thread::Builder::new().name("loopback".into());
    let reader = reader.spawn(move || -> Result<u64> {
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; CHUNK];
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(bytes),
                read => bytes += read as u64,
            }
        }
    })?;
    let mut stream = TcpStream::connect(address)?;
    let chunk = vec![7; CHUNK];
    let watch = Stopwatch::start();
    while watch.elapsed() < LOOK {
        stream.write_all(&chunk)?;
    }
    drop(stream);
    let read = reader.join().ok().context("the reader has panicked")??;
    Ok(read as f64 / watch.seconds())
}
