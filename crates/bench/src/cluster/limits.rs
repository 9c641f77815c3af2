//! The limits of the machine and the database.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::settings::Settings;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// The approximate size of a call and its answer on the wire.
const BYTES: usize = 200;

/// Measures round trips over loopback.
pub(super) async fn round_trips(settings: &Settings) -> Result<Samples> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut bytes = [0; BYTES];
        while stream.read_exact(&mut bytes).await.is_ok() {
            stream.write_all(&bytes).await?;
        }
        anyhow::Ok(())
    });
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut samples = Samples::default();
    let mut bytes = [7; BYTES];
    for _ in 0..settings.calls {
        let waited = Stopwatch::start();
        stream.write_all(&bytes).await?;
        stream.read_exact(&mut bytes).await?;
        samples.push(waited.elapsed());
    }
    drop(stream);
    echo.await??;
    Ok(samples)
}
