//! `steadfast job collection`: collections of jobs.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::scope::{CollectionScope, VERSION};
use crate::confirm::confirm;
use crate::globals::Globals;
use crate::output::{OutputFormat, PageArguments, Table, print};
use crate::server_client::ServerClient;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a collection
    #[command(after_help = "Examples:\n  steadfast job collection create nightly --max-jobs 20")]
    Create {
        /// Name of the collection
        name: String,
        /// The plan that limits its jobs: Free, Standard, P10Premium or P20Premium
        #[arg(long, default_value = "Standard")]
        sku: String,
        /// Maximum number of jobs
        #[arg(long)]
        max_jobs: Option<u32>,
    },
    /// List collections
    #[command(after_help = "Examples:\n  steadfast job collection list")]
    List(PageArguments),
    /// Show a collection
    #[command(after_help = "Examples:\n  steadfast job collection show nightly")]
    Show {
        /// Name of the collection
        name: String,
    },
    /// Enable all jobs of a collection
    #[command(after_help = "Examples:\n  steadfast job collection enable nightly")]
    Enable {
        /// Name of the collection
        name: String,
    },
    /// Disable all jobs of a collection
    #[command(after_help = "Examples:\n  steadfast job collection disable nightly")]
    Disable {
        /// Name of the collection
        name: String,
    },
    /// Delete a collection and its jobs
    #[command(after_help = "Examples:\n  steadfast job collection delete nightly --yes")]
    Delete {
        /// Name of the collection
        name: String,
    },
}

/// Runs a command on job collections.
pub(crate) fn run(command: &Command, scope: &CollectionScope, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    let (name, method, path, done) = match command {
        Command::Create {
            name,
            sku,
            max_jobs,
        } => {
            let mut properties = json!({"sku": {"name": sku}});
            if let Some(count) = max_jobs {
                properties["quota"] = json!({"maxJobCount": count});
            }
            let path = format!("{}?{VERSION}", scope.collection(name)?);
            let body = json!({"properties": properties});
            let _: Value = remote.request(Method::PUT, &path, Some(&body))?;
            return print(&[("created", json!(name))], output);
        }
        Command::List(page) => return list(&remote, scope, page, output),
        Command::Show { name } => {
            let path = format!("{}?{VERSION}", scope.collection(name)?);
            let found: Value = remote.request(Method::GET, &path, None)?;
            return show(&found, output);
        }
        Command::Enable { name } => (name, Method::POST, "/enable", "enabled"),
        Command::Disable { name } => (name, Method::POST, "/disable", "disabled"),
        Command::Delete { name } => {
            confirm(
                globals,
                &format!("delete the collection '{name}' with all its jobs"),
            )?;
            (name, Method::DELETE, "", "deleted")
        }
    };
    let path = format!("{}{path}?{VERSION}", scope.collection(name)?);
    let _: Value = remote.request(method, &path, None)?;
    print(&[(done, json!(name))], output)
}

fn list(
    remote: &ServerClient,
    scope: &CollectionScope,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let path = format!("{}?{VERSION}", scope.collections()?);
    let found: Value = remote.request(Method::GET, &path, None)?;
    let rows = found["value"].as_array().into_iter().flatten();
    let rows = rows.map(|item| {
        let properties = &item["properties"];
        json!({
            "name": item["name"],
            "state": properties["state"],
            "sku": properties["sku"]["name"],
            "max_jobs": properties["quota"]["maxJobCount"],
        })
    });
    let page = page.cut(rows.collect(), "name")?;
    let table = Table::new("collections", &["name", "state", "sku", "max_jobs"]);
    table.page(page).print(output)
}

fn show(found: &Value, output: OutputFormat) -> Result<()> {
    let properties = &found["properties"];
    let facts = [
        ("name", found["name"].clone()),
        ("state", properties["state"].clone()),
        ("sku", properties["sku"]["name"].clone()),
        ("max_jobs", properties["quota"]["maxJobCount"].clone()),
    ];
    print(&facts, output)
}
