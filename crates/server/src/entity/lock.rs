//! `steadfast entity lock`: locks of entities.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

use crate::confirm::confirm;
use crate::globals::Globals;
use crate::output::{OutputFormat, PageArguments, Table, WatchArguments, print};
use crate::taskhub::{TaskHubArguments, TaskHubHttpClient};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List all locks with holder, age and number of waiters
    #[command(after_help = "Examples:\n  steadfast entity lock list")]
    List {
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Release a lock that its holder cannot release
    ///
    /// The holder is not notified and continues: use it only for locks that nothing else
    /// releases. The critical section is the one that `lock list` shows, so that a lock
    /// that has changed hands since is not released.
    Release {
        /// Name of the entity
        name: String,
        /// Key of the entity; $ is the empty key
        key: String,
        /// The critical section that holds the lock
        #[arg(long, value_name = "ID")]
        section: String,
    },
}

/// Runs a command on locks.
pub(crate) fn run(command: &Command, hub: &TaskHubArguments, globals: &Globals) -> Result<()> {
    let hub = TaskHubHttpClient::new(hub, globals)?;
    let output = globals.output();
    match command {
        Command::List { page, watch } => watch.run(|| list(&hub, page, output)),
        Command::Release { name, key, section } => {
            let entity = format!("@{name}@{key}");
            confirm(globals, &format!("release the lock of '{entity}'"))?;
            let query = [("section", section.clone())];
            hub.quick(Method::DELETE, &["locks", name, key], &query, None)?;
            print(&[("released", json!(entity))], output)
        }
    }
}

fn list(hub: &TaskHubHttpClient, page: &PageArguments, output: OutputFormat) -> Result<()> {
    let answer = hub.quick(Method::GET, &["locks"], &[], None)?;
    let rows = answer.as_array().into_iter().flatten();
    let rows = rows.map(|lock| {
        json!({
            "entity": lock["entityId"],
            "holder": lock["holder"],
            "since": lock["since"],
            "waiting": lock["waiting"],
            "section": lock["criticalSectionId"],
        })
    });
    let page = page.cut(rows.collect(), "entity")?;
    let columns = &["entity", "holder", "since", "waiting", "section"];
    Table::new("locks", columns).page(page).print(output)
}
