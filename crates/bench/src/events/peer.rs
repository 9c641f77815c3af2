//! Redis Streams, every write synced, where it is installed.
//!
//! The load is the same: four connections, events of 1 KiB, 200 of them in flight, each
//! acknowledged after it was synced.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::link::LOAD_PARTITIONS;
use super::settings::Settings;
use crate::redis::Redis;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

const EVENT_BYTES: usize = 1024;
const BATCH_EVENTS: usize = 200;
const AHEAD: usize = 16;

/// Measures Redis and compares it with Steadfast's rate in the same round.
pub(super) fn measure(settings: &Settings, own: f64, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let Some(redis) = Redis::start(folder.path())? else {
        return Ok(());
    };
    let mut threads = Vec::new();
    let watch = Stopwatch::start();
    for number in 0..LOAD_PARTITIONS {
        let (stream, duration) = (redis.connect()?, settings.duration);
        let thread = std::thread::Builder::new().name("redis".into());
        threads.push(thread.spawn(move || send(stream, number, duration))?);
    }
    let mut events = 0;
    for thread in threads {
        events += thread.join().ok().context("a sender has panicked")??;
    }
    let peer = events as f64 / watch.seconds();
    report.figures.record("redis_streams_events_per_s", peer);
    let bound = GoalBound::AtLeast(5.0);
    report
        .goals
        .record("in_of_redis_streams", "x", bound, own / peer);
    Ok(())
}

/// Adds events to a stream for a while; returns how many were acknowledged.
fn send(mut stream: TcpStream, number: u32, duration: Duration) -> Result<u64> {
    let mut command = format!("*5\r\n$4\r\nXADD\r\n$2\r\ns{number}\r\n$1\r\n*\r\n$1\r\nb\r\n");
    command.push_str(&format!(
        "${EVENT_BYTES}\r\n{}\r\n",
        "x".repeat(EVENT_BYTES)
    ));
    let batch = command.repeat(BATCH_EVENTS);
    let (mut sent, mut acknowledged) = (0, 0);
    let mut buffer = vec![0; 64 * 1024];
    let watch = Stopwatch::start();
    while watch.elapsed() < duration || acknowledged < sent {
        if watch.elapsed() < duration && sent - acknowledged < (AHEAD * BATCH_EVENTS) as u64 {
            stream.write_all(batch.as_bytes())?;
            sent += BATCH_EVENTS as u64;
            continue;
        }
        let read = stream.read(&mut buffer)?;
        if read == 0 || buffer[0] == b'-' {
            bail!(
                "Redis refuses: {}",
                String::from_utf8_lossy(&buffer[..read.min(200)])
            );
        }
        // A reply is the id of the event, with one '$' in it.
        acknowledged += buffer[..read].iter().filter(|byte| **byte == b'$').count() as u64;
    }
    Ok(acknowledged)
}
