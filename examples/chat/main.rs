//! A chat: an app server of a running `steadfast dev`.
//!
//! Start several and stop one with Ctrl+C: its clients get a notice and move to another
//! server without losing their connection.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints to its user"
)]

use std::error::Error;
use std::time::Duration;

use steadfast::realtime::{Context, HubResult, ShutdownMode};
use steadfast::{AppServer, hub};

/// The connection string that `steadfast dev` prints, with its well-known key.
const SERVICE: &str = "Endpoint=http://localhost;Port=8888;\
    AccessKey=ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH;Version=1.0;";

#[derive(Default)]
struct Chat;

#[hub]
impl Chat {
    async fn broadcast_message(
        &self,
        context: &Context,
        name: String,
        text: String,
    ) -> HubResult<()> {
        let all = context.clients().all();
        Ok(all.send("broadcastMessage", &(name, text)).await?)
    }

    async fn on_connected(&self, context: &Context) {
        let id = context.connection_id();
        match context.migration() {
            Some(own) => println!("[{}] {id} is migrated from {}", own.to, own.from),
            None => println!("{id} connected"),
        }
    }

    async fn on_disconnected(&self, context: &Context, _error: Option<String>) {
        let id = context.connection_id();
        match context.migration() {
            Some(own) => println!("[{}] {id} will be migrated to {}", own.from, own.to),
            None => println!("{id} disconnected"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = std::env::args().nth(1);
    let server = AppServer::builder(service.as_deref().unwrap_or(SERVICE))
        .shutdown_mode(ShutdownMode::MigrateClients)
        .shutdown_limit(Duration::from_secs(30))
        .hub::<Chat>("chat")
        .on_shutdown("chat", |clients| async move {
            if let Err(error) = clients.all().send("exit", &()).await {
                eprintln!("the notice was not sent: {error}");
            }
        })
        .start()?;
    server.ready().await;
    println!("the hub 'chat' is open; Ctrl+C ends it");
    tokio::signal::ctrl_c().await?;
    let left = server.shutdown().await;
    println!("{left} clients were left");
    Ok(())
}
