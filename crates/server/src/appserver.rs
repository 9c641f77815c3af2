//! `steadfast appserver`: the app servers of hubs.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::eventhub::rows;
use crate::out::out;
use crate::progress::draw;
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table};

const COLUMNS: &[&str] = &["server", "state", "clients", "links", "moves", "moved"];

/// The polling interval of a drain.
const LOOK: Duration = Duration::from_millis(100);

/// The width of the progress bar.
const WIDTH: usize = 30;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the servers of a hub
    List {
        /// Which hub
        hub: String,
    },
    /// Drain a server: move its clients away and give it no new ones
    ///
    /// Clients of a server in mode MigrateClients move to other servers between two
    /// messages; other clients stay until they disconnect. Prints a summary at the end,
    /// and fails if clients are left.
    Drain {
        /// Which hub
        hub: String,
        /// Which server
        server: String,
        /// Time limit of the drain, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        limit: u64,
    },
}

/// The progress of a drain.
#[derive(Clone, Copy, Default)]
struct DrainProgress {
    /// The number of clients at the start.
    clients: u64,
    moved: u64,
    left: u64,
}

impl DrainProgress {
    /// The clients that disconnected.
    fn closed(&self) -> u64 {
        self.clients.saturating_sub(self.moved + self.left)
    }

    fn bar(&self) -> String {
        let done = self.clients.saturating_sub(self.left);
        let filled = match self.clients {
            0 => WIDTH,
            all => (done * WIDTH as u64 / all) as usize,
        };
        let bar = format!("{}{}", "#".repeat(filled), "-".repeat(WIDTH - filled));
        format!("[{bar}] {done} of {} clients", self.clients)
    }
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::List { hub } => {
            let answer = servers(&remote, hub)?;
            let mut table = Table::new("servers", COLUMNS);
            for row in rows(&answer, "servers")? {
                table.row(row.clone());
            }
            table.print(output)
        }
        Command::Drain { hub, server, limit } => {
            let limit = Duration::from_secs(*limit);
            let balance = drain(&remote, hub, server, limit)?;
            show(server, &balance, output)?;
            if balance.left > 0 {
                bail!(
                    "{} clients are left; they stay until they disconnect",
                    balance.left
                );
            }
            Ok(())
        }
    }
}

fn servers(remote: &ServerClient, hub: &str) -> Result<Value> {
    let path = format!("/v1/hubs/{}/servers", segment(hub)?);
    remote.request(Method::GET, &path, None)
}

/// Starts the drain and polls until the server has no clients.
fn drain(remote: &ServerClient, hub: &str, server: &str, limit: Duration) -> Result<DrainProgress> {
    let (hub_part, server_part) = (segment(hub)?, segment(server)?);
    let path = format!("/v1/hubs/{hub_part}/servers/{server_part}/drain");
    let begun: Value = remote.request(Method::POST, &path, None)?;
    let clients = begun["clients"]
        .as_u64()
        .context("the server's response has no client count")?;
    let mut balance = DrainProgress {
        clients,
        left: clients,
        ..DrainProgress::default()
    };
    let is_shown = std::io::stderr().is_terminal();
    let mut looks = (limit.as_millis() / LOOK.as_millis()).max(1);
    loop {
        let answer = servers(remote, hub)?;
        let all = rows(&answer, "servers")?;
        let own = all.iter().find(|own| own["server"] == server);
        // A server without links has no clients.
        balance.left = own.and_then(|own| own["clients"].as_u64()).unwrap_or(0);
        if let Some(moved) = own.and_then(|own| own["moved"].as_u64()) {
            balance.moved = moved;
        }
        if is_shown {
            draw(&balance.bar());
        }
        looks -= 1;
        if balance.left == 0 || looks == 0 {
            if is_shown {
                draw("");
            }
            return Ok(balance);
        }
        std::thread::sleep(LOOK);
    }
}

fn show(server: &str, balance: &DrainProgress, output: OutputFormat) -> Result<()> {
    let DrainProgress {
        clients,
        moved,
        left,
    } = *balance;
    let closed = balance.closed();
    if output == OutputFormat::Json {
        let sheet = json!({
            "server": server, "clients": clients,
            "moved": moved, "closed": closed, "left": left,
        });
        return out(&serde_json::to_string_pretty(&sheet)?);
    }
    let line = format!("{server}: {clients} clients, {moved} moved, {closed} closed, {left} left");
    out(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_as_clients_go() {
        let mut balance = DrainProgress {
            clients: 10,
            moved: 3,
            left: 5,
        };
        assert_eq!(balance.closed(), 2);
        let bar = balance.bar();
        assert_eq!(
            bar,
            format!("[{0}{1}] 5 of 10 clients", "#".repeat(15), "-".repeat(15))
        );
        balance = DrainProgress::default();
        assert_eq!(
            balance.bar(),
            format!("[{}] 0 of 0 clients", "#".repeat(WIDTH))
        );
    }
}
