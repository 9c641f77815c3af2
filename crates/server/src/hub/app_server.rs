//! `steadfast hub server`: app servers of SignalR hubs.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::path::hub_path;
use crate::globals::Globals;
use crate::listing::rows;
use crate::output::progress::{bar, redraw};
use crate::output::{OutputFormat, PageArguments, Table, WatchArguments, out, print_value};
use crate::server_client::{ServerClient, segment};

const COLUMNS: &[&str] = &["server", "state", "clients", "links", "moves", "moved"];

/// The polling interval of a drain.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the app servers of a hub
    #[command(after_help = "Examples:\n  steadfast hub server list chat")]
    List {
        /// Name of the hub
        hub: String,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Drain an app server: move its clients away and give it no new ones
    ///
    /// Clients of a server in mode MigrateClients move to other servers between two
    /// messages; other clients stay until they disconnect. Prints a summary at the end,
    /// and fails if clients are left.
    Drain {
        /// Name of the hub
        hub: String,
        /// Name of the app server
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
        let bar = bar(done, self.clients);
        format!("{bar} {done} of {} clients", self.clients)
    }
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List { hub, page, watch } => watch.run(|| {
            let answer = servers(&remote, hub)?;
            let page = page.cut(rows(&answer, "servers")?.clone(), "server")?;
            Table::new("servers", COLUMNS).page(page).print(output)
        }),
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
    let path = format!("{}/servers", hub_path(hub)?);
    remote.request(Method::GET, &path, None)
}

/// Starts the drain and polls until the server has no clients.
fn drain(remote: &ServerClient, hub: &str, server: &str, limit: Duration) -> Result<DrainProgress> {
    let path = format!("{}/servers/{}/drain", hub_path(hub)?, segment(server)?);
    let begun: Value = remote.request(Method::POST, &path, None)?;
    let clients = begun["clients"]
        .as_u64()
        .context("the server's response has no client count")?;
    let mut balance = DrainProgress {
        clients,
        left: clients,
        ..DrainProgress::default()
    };
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
        redraw(&balance.bar());
        looks -= 1;
        if balance.left == 0 || looks == 0 {
            redraw("");
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
    if output.is_structured() {
        let report = json!({
            "server": server, "clients": clients,
            "moved": moved, "closed": closed, "left": left,
        });
        return print_value(&report, output);
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
        assert!(bar.ends_with("] 5 of 10 clients"), "{bar}");
        balance = DrainProgress::default();
        assert!(balance.bar().ends_with("] 0 of 0 clients"));
    }
}
