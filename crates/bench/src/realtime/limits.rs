//! The limit of the loopback device.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// How long the limit is measured.
const LOOK: Duration = Duration::from_millis(500);

/// The length of a short message.
const BYTES: usize = 100;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::Builder::new().name("loopback".into());
    let echo = echo.spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut bytes = [0; BYTES];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes)?;
        }
        Ok(())
    })?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (watch, mut samples) = (Stopwatch::start(), Samples::default());
    let mut bytes = [7; BYTES];
    while watch.elapsed() < LOOK {
        let one = Stopwatch::start();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        samples.push(one.elapsed());
    }
    drop(stream);
    echo.join().ok().context("the echo has panicked")??;
    let limits = &mut report.limits;
    limits.record("loopback_round_trip_p50_us", samples.percentile_us(50.0));
    limits.record("loopback_round_trip_p99_us", samples.percentile_us(99.0));
    Ok(())
}
