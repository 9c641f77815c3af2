//! Serves event hubs of a folder to real clients.
//!
//! `event_hubs <folder> <name:partitions>..` prints a line of JSON with its
//! addresses and the file of its certificate, and serves until its input ends.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use steadfast_core::clock::SystemClock;
use steadfast_events::Definition;
use steadfast_protocols::listen::{Bind, Certificate, Listener};
use steadfast_protocols::{amqp, publish};

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
    let (chain, key) = certificate(&folder)?;
    let tls = Certificate::load(&chain, &key)?;
    let plain = node.listen();
    let encrypted = node.listen_at(Bind {
        address: ([127, 0, 0, 1], 0).into(),
        tls: Some(tls.server(&[])),
        connections: 1000,
    });
    let web = serve_web(&node, &tls)?;
    let said = json!({
        "amqp": plain.port(), "amqps": encrypted.port(), "https": web,
        "certificate": chain, "key_name": amqp_setup::KEY_NAME, "key": amqp_setup::KEY,
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{said}")?;
    out.flush()?;
    drop(out);
    let waiting = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(waiting).await??;
    node.stop().await;
    Ok(())
}

/// HTTP with TLS: what clients use for AMQP over WebSocket.
fn serve_web(
    node: &amqp_setup::Node,
    tls: &Arc<Certificate>,
) -> Result<u16, Box<dyn std::error::Error>> {
    let listener = Listener::bind(Bind {
        address: ([127, 0, 0, 1], 0).into(),
        tls: Some(tls.server(&["http/1.1"])),
        connections: 1000,
    })?;
    let port = listener.address().port();
    let routes = amqp::routes(Arc::clone(&node.context), node.stop.clone())
        .merge(publish::routes(Arc::clone(&node.context)));
    let stop = node.stop.clone();
    node.tasks.spawn(listener.run(
        node.stop.clone(),
        node.tasks.clone(),
        move |stream, peer| {
            steadfast_protocols::http::serve(stream, peer, routes.clone(), stop.clone())
        },
    ));
    Ok(port)
}

/// A certificate for this machine, made once per folder.
fn certificate(folder: &Path) -> Result<(PathBuf, PathBuf), Box<dyn std::error::Error>> {
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    if !chain.exists() {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        std::fs::write(&chain, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
    }
    Ok((chain, key))
}
