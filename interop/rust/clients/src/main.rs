//! A client of Event Hubs in Rust, against a running server.
//!
//! `event-hub-clients <what the server said> <scenario>` runs a scenario.

use std::process::ExitCode;
use std::time::Instant;

use server::Server;

mod scenarios;
mod server;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

// On several threads this library may miss an answer that comes before it has noted what
// it sent.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let started = Instant::now();
    let outcome = match &arguments[..] {
        [said, scenario] => scenarios::run(&Server::of(said), scenario).await,
        _ => Err("usage: event-hub-clients <what the server said> <scenario>".into()),
    };
    match outcome {
        Ok(()) => {
            let seconds = started.elapsed().as_secs_f32();
            println!("ok {} {seconds:.1} s", arguments[1]);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
