//! Serves event hubs of a folder to real clients.
//!
//! `event_hubs <folder> <name:partitions>..` prints a line of JSON with its
//! addresses and the file of its certificate, and serves until its input ends.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use steadfast_core::clock::SystemClock;
use steadfast_events::Definition;

#[path = "../tests/amqp_setup/mod.rs"]
mod amqp_setup;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    std::fs::create_dir_all(&folder)?;
    let node = amqp_setup::open(&folder.join("data"), Arc::new(SystemClock::new())).await;
    for argument in arguments {
        let (name, partitions) = argument.split_once(':').ok_or("write name:partitions")?;
        let definition = Definition::new(name, partitions.parse()?).group("second");
        node.hubs.ensure(definition).await?;
    }
    let said = amqp_setup::web::listen(&node, &folder);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{said}")?;
    out.flush()?;
    drop(out);
    let waiting = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(waiting).await??;
    node.stop().await;
    Ok(())
}
