//! A client of signalr-client that talks to all others.
//!
//! `signalr-clients <what the server said>` says when it is connected, sends each line of its
//! input to all clients of the hub, and prints what it receives, until its input ends.

use serde_json::Value;
use signalr_client::SignalRClient;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), String> {
    let said = std::env::args().nth(1).ok_or("what does the server say?")?;
    let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let (url, token) = (text("url"), text("token"));
    let (scheme, address) = url.split_once("://").ok_or("a URL")?;
    let (host, port) = address.split_once(':').ok_or("an address with a port")?;
    let port = port.parse().map_err(|_| "a port")?;
    let mut client = SignalRClient::connect_with(host, "room", |options| {
        options.with_port(port);
        if scheme == "http" {
            options.unsecure();
        }
        options.authenticate_bearer(token.clone());
    })
    .await?;
    let _told = client.register("told".to_owned(), |call| {
        if let Ok(text) = call.argument::<String>(0) {
            println!("told {text}");
        }
    });
    println!("connected");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let sent = client.send_with_args("tell_all".to_owned(), |call| {
            call.argument(line.clone());
        });
        sent.await?;
    }
    client.disconnect();
    Ok(())
}
