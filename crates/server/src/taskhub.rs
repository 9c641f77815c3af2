//! `steadfast taskhub`, and an HTTP client of a task hub.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::listing::rows_by_page;
use crate::output::{Facts, Page, PageArguments, Table, WatchArguments, print, print_value};
use crate::server_client::{ServerClient, encoded};

/// The base path of the interface.
const BASE: &str = "/runtime/webhooks/durabletask";

/// Time that is added to the server's time-out.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List task hubs with their workers and queued work
    #[command(after_help = "Examples:\n  steadfast taskhub list")]
    List {
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show a task hub and its share on each node
    #[command(after_help = "Examples:\n  steadfast taskhub show default")]
    Show {
        /// Name of the task hub
        #[arg(default_value = "default")]
        name: String,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show the workers of a task hub
    #[command(subcommand)]
    Worker(WorkerCommand),
}

#[derive(Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the connected workers of a task hub
    #[command(after_help = "Examples:\n  steadfast taskhub worker list")]
    List {
        /// Name of the task hub
        #[arg(default_value = "default")]
        name: String,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
}

/// Runs a command on task hubs.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let output = globals.output();
    match command {
        Command::List { page, watch } => watch.run(|| {
            let page = rows_by_page(&remote, "/v1/taskhubs", "taskhubs", page)?;
            let columns = &["name", "workers", "queued", "in_progress"];
            Table::new("taskhubs", columns).page(page).print(output)
        }),
        Command::Show { name, watch } => {
            let path = format!("/v1/taskhubs/{}", encoded(name));
            watch.run(|| show(&remote, &path, globals))
        }
        Command::Worker(WorkerCommand::List { name, page, watch }) => {
            let path = format!("/v1/taskhubs/{}/workers", encoded(name));
            watch.run(|| workers(&remote, &path, page, globals))
        }
    }
}

fn show(remote: &ServerClient, path: &str, globals: &Globals) -> Result<()> {
    let output = globals.output();
    let hub: Value = remote.request(Method::GET, path, None)?;
    if output.is_structured() {
        return print_value(&hub, output);
    }
    let mut facts: Facts = ["name", "workers", "queued", "in_progress"]
        .map(|name| (name, hub[name].clone()))
        .to_vec();
    for (name, kind) in [
        ("queued orchestrations", "orchestrations"),
        ("queued activities", "activities"),
        ("queued entities", "entities"),
    ] {
        facts.push((name, hub["queued_by_kind"][kind].clone()));
    }
    print(&facts, output)
}

fn workers(
    remote: &ServerClient,
    path: &str,
    page: &PageArguments,
    globals: &Globals,
) -> Result<()> {
    let output = globals.output();
    let mut page = rows_by_page(remote, path, "workers", page)?;
    if !output.is_structured() {
        page.rows = page.rows.into_iter().map(worker_row).collect();
    }
    let columns = &[
        "id",
        "name",
        "address",
        "since",
        "orchestrations",
        "activities",
        "entities",
    ];
    Table::new("workers", columns).page(page).print(output)
}

/// A worker with its load as `in progress/limit` per kind of work.
fn worker_row(mut worker: Value) -> Value {
    for kind in ["orchestrations", "activities", "entities"] {
        let (busy, limit) = (&worker["in_progress"][kind], &worker["limits"][kind]);
        worker[kind] = json!(format!("{busy}/{limit}"));
    }
    worker
}

/// The task hub to use.
#[derive(Args)]
pub(crate) struct TaskHubArguments {
    /// The task hub
    #[arg(long, value_name = "NAME", default_value = "default", global = true)]
    hub: String,
}

/// A task hub of a running server.
pub(crate) struct TaskHubHttpClient {
    remote: ServerClient,
    name: String,
}

impl TaskHubHttpClient {
    /// Creates a client of the task hub, without connecting.
    pub(crate) fn new(hub: &TaskHubArguments, globals: &Globals) -> Result<Self> {
        Ok(Self {
            remote: ServerClient::new(globals)?,
            name: hub.hub.clone(),
        })
    }

    /// Sends a request with the time-out `patience`. The segments of the path may contain any
    /// characters.
    pub(crate) fn request(
        &self,
        patience: Duration,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value> {
        let address = self.address(path, query);
        let limit = patience + MARGIN;
        self.remote.request_within(limit, method, &address, body)
    }

    /// Sends a request with a short time-out.
    pub(crate) fn quick(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value> {
        self.request(Duration::ZERO, method, path, query, body)
    }

    /// Lists page by page; `row` makes the row of an item.
    pub(crate) fn pages(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        page: &PageArguments,
        row: fn(Value) -> Value,
    ) -> Result<Page> {
        page.fetch(|cursor, limit| {
            let mut query = query.to_vec();
            query.push(("top", limit.to_string()));
            let (items, next) = self.remote.continued(&self.address(path, &query), cursor)?;
            let Value::Array(items) = items else {
                anyhow::bail!("the server's response is not a list");
            };
            let rows = items.into_iter().map(row).collect();
            Ok(Page { rows, next })
        })
    }

    /// Passes each item of a list to `take`.
    pub(crate) fn each(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        mut take: impl FnMut(Value),
    ) -> Result<()> {
        let all = PageArguments::all();
        let path = self.address(path, &[query, &[("top", "1000".to_owned())]].concat());
        all.fetch(|cursor, _| {
            let (items, next) = self.remote.continued(&path, cursor)?;
            let Value::Array(items) = items else {
                anyhow::bail!("the server's response is not a list");
            };
            items.into_iter().for_each(&mut take);
            let rows = Vec::new();
            Ok(Page { rows, next })
        })?;
        Ok(())
    }

    fn address(&self, path: &[&str], query: &[(&str, String)]) -> String {
        let mut address = BASE.to_owned();
        for part in path {
            address += &format!("/{}", encoded(part));
        }
        address += &format!("?taskHub={}", encoded(&self.name));
        for (name, value) in query {
            address += &format!("&{name}={}", encoded(value));
        }
        address
    }
}

/// Parses a payload from the command line.
pub(crate) fn payload(text: Option<&String>) -> Result<Option<Value>> {
    let read = text.map(|text| serde_json::from_str(text));
    read.transpose().map_err(|error| {
        let words = "a payload is JSON: a text stands in quotes, '\"like this\"'";
        CommandError::Usage(format!("{words}: {error}")).into()
    })
}
