//! `steadfast job`: scheduled jobs.

pub(crate) mod collection;
pub(crate) mod scope;
mod timing;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::confirm::confirm;
use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::{
    Facts, OutputFormat, Page, PageArguments, Table, WatchArguments, print, print_value,
};
use crate::server_client::ServerClient;
use scope::{CollectionScope, JobName, VERSION};
use timing::{TimingArguments, schedule};

/// The largest number of items that the server returns at once.
const LARGEST_PAGE: usize = 100;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create or replace a job, and show when it runs first
    #[command(after_help = "\
Examples:
  steadfast job create nightly greet --publish houses --body 'good morning' --every day --start 2026-01-01T05:00:00Z
  steadfast job create nightly report --call https://example.org/report --cron '0 5 * * *' --zone Europe/Berlin")]
    Create(CreateJobArguments),
    /// List the jobs of a collection
    #[command(after_help = "Examples:\n  steadfast job list nightly")]
    List {
        /// Name of the collection
        collection: String,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show a job, its schedule and its counts
    #[command(after_help = "Examples:\n  steadfast job show nightly greet")]
    Show {
        #[command(flatten)]
        name: JobName,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Run a job now
    #[command(after_help = "Examples:\n  steadfast job run nightly greet")]
    Run(JobName),
    /// Pause a job: due runs wait until it is resumed
    #[command(after_help = "Examples:\n  steadfast job pause nightly greet --reason holidays")]
    Pause {
        #[command(flatten)]
        name: JobName,
        /// The reason, shown with the job
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused job
    #[command(after_help = "Examples:\n  steadfast job resume nightly greet")]
    Resume(JobName),
    /// Run a job for the occurrences of a time range
    #[command(
        after_help = "Examples:\n  steadfast job backfill nightly greet --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z"
    )]
    Backfill {
        #[command(flatten)]
        name: JobName,
        /// Begin of the range, such as 2026-01-01T00:00:00Z
        #[arg(long, value_name = "TIME")]
        from: String,
        /// End of the range
        #[arg(long, value_name = "TIME")]
        to: String,
    },
    /// Show the attempts of a job, newest first
    #[command(after_help = "Examples:\n  steadfast job history nightly greet")]
    History {
        #[command(flatten)]
        name: JobName,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show when a job would run, without creating it
    #[command(
        after_help = "Examples:\n  steadfast job preview --cron '0 5 * * *' --zone Europe/Berlin --limit 5"
    )]
    Preview(PreviewArguments),
    /// Import jobs from a file that Azure Scheduler or `job export` wrote
    #[command(after_help = "Examples:\n  steadfast job import nightly jobs.json")]
    Import {
        /// Name of the collection
        collection: String,
        /// The exported JSON
        file: PathBuf,
    },
    /// Print all jobs of a collection as JSON, without secrets
    #[command(after_help = "Examples:\n  steadfast job export nightly > jobs.json")]
    Export {
        /// Name of the collection
        collection: String,
    },
    /// Enable a job
    #[command(after_help = "Examples:\n  steadfast job enable nightly greet")]
    Enable(JobName),
    /// Disable a job
    #[command(after_help = "Examples:\n  steadfast job disable nightly greet")]
    Disable(JobName),
    /// Delete a job and its history
    #[command(after_help = "Examples:\n  steadfast job delete nightly greet --yes")]
    Delete(JobName),
    /// Manage job collections
    #[command(subcommand)]
    Collection(collection::Command),
}

/// The action and the schedule of a job.
#[derive(Args)]
pub(crate) struct CreateJobArguments {
    #[command(flatten)]
    name: JobName,
    /// The address to call
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["file", "publish"])]
    call: Option<String>,
    /// The event hub of this server to publish to, instead of a call
    #[arg(long, value_name = "EVENTHUB", conflicts_with_all = ["call", "file"])]
    publish: Option<String>,
    /// The partition key of the published event
    #[arg(long, requires = "publish")]
    key: Option<String>,
    /// The HTTP method of the call
    #[arg(long, default_value = "POST")]
    method: String,
    /// The body of the call, or of the event
    #[arg(long)]
    body: Option<String>,
    /// The properties of the job as JSON, for properties without an option
    #[arg(long, value_name = "FILE", conflicts_with = "call")]
    file: Option<PathBuf>,
    #[command(flatten)]
    timing: TimingArguments,
}

/// A preview.
#[derive(Args)]
pub(crate) struct PreviewArguments {
    #[command(flatten)]
    timing: TimingArguments,
    /// Number of runs to show
    #[arg(long, value_name = "N", default_value_t = 10, alias = "top")]
    limit: u32,
}

/// Runs a command on jobs.
pub(crate) fn run(command: &Command, scope: &CollectionScope, globals: &Globals) -> Result<()> {
    if let Command::Collection(command) = command {
        return collection::run(command, scope, globals);
    }
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List {
            collection,
            page,
            watch,
        } => {
            let collection = scope.collection(collection)?;
            watch.run(|| list(&remote, &collection, page, output))
        }
        Command::Show { name, watch } => {
            let path = format!("{}?{VERSION}", scope.job(name)?);
            watch.run(|| show(&remote.request(Method::GET, &path, None)?, output))
        }
        Command::History { name, page, watch } => {
            let job = scope.job(name)?;
            watch.run(|| history(&remote, &job, page, output))
        }
        Command::Preview(preview) => print_preview(&remote, scope, preview, output),
        Command::Import { collection, file } => {
            import(&remote, &scope.collection(collection)?, file, output)
        }
        Command::Export { collection } => export(&remote, &scope.collection(collection)?, output),
        other => change(&remote, other, scope, globals),
    }
}

/// Creates, changes or runs a job.
fn change(
    remote: &ServerClient,
    command: &Command,
    scope: &CollectionScope,
    globals: &Globals,
) -> Result<()> {
    let output = globals.output();
    let post = |job: &JobName, verb: &str, body: Option<&Value>, done: &'static str| {
        let path = format!("{}/{verb}?{VERSION}", scope.job(job)?);
        let _: Value = remote.request(Method::POST, &path, body)?;
        print(&[(done, json!(job.name))], output)
    };
    match command {
        Command::Create(create) => make(remote, scope, create, output),
        Command::Run(job) => post(job, "run", None, "running"),
        Command::Pause { name, reason } => {
            let body = json!({"reason": reason.as_deref().unwrap_or_default()});
            post(name, "pause", Some(&body), "paused")
        }
        Command::Resume(job) => post(job, "resume", None, "resumed"),
        Command::Backfill { name, from, to } => {
            let body = json!({"from": from, "to": to});
            post(name, "backfill", Some(&body), "backfilled")
        }
        Command::Enable(job) => set_state(remote, scope, job, "Enabled", output),
        Command::Disable(job) => set_state(remote, scope, job, "Disabled", output),
        Command::Delete(job) => {
            let what = format!("delete the job '{}' with its history", job.name);
            confirm(globals, &what)?;
            let path = format!("{}?{VERSION}", scope.job(job)?);
            let _: Value = remote.request(Method::DELETE, &path, None)?;
            print(&[("deleted", json!(job.name))], output)
        }
        _ => Ok(()),
    }
}

fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))
}

fn make(
    remote: &ServerClient,
    scope: &CollectionScope,
    create: &CreateJobArguments,
    output: OutputFormat,
) -> Result<()> {
    let mut properties = match &create.file {
        Some(file) => {
            let read = read(file)?;
            read.get("properties").cloned().unwrap_or(read)
        }
        None => json!({"action": action(create)}),
    };
    for (name, value) in create.timing.members()? {
        properties[name] = value;
    }
    let path = format!("{}?{VERSION}", scope.job(&create.name)?);
    let body = json!({"properties": properties});
    show(&remote.request(Method::PUT, &path, Some(&body))?, output)
}

/// The action of the job, from the options.
fn action(create: &CreateJobArguments) -> Value {
    if let Some(hub) = &create.publish {
        let (body, key) = (&create.body, &create.key);
        let event = json!({"eventHub": hub, "body": body, "partitionKey": key});
        return json!({"type": "Internal", "internal": event});
    }
    let url = create.call.as_deref().unwrap_or_default();
    let kind = if url.starts_with("https:") {
        "Https"
    } else {
        "Http"
    };
    let mut request = json!({"uri": url, "method": create.method});
    if let Some(body) = &create.body {
        request["body"] = json!(body);
    }
    json!({"type": kind, "request": request})
}

fn set_state(
    remote: &ServerClient,
    scope: &CollectionScope,
    job: &JobName,
    state: &str,
    output: OutputFormat,
) -> Result<()> {
    let path = format!("{}?{VERSION}", scope.job(job)?);
    let body = json!({"properties": {"state": state}});
    show(&remote.request(Method::PATCH, &path, Some(&body))?, output)
}

/// Items of a list of the Scheduler's interface. The cursor is the number of items before
/// the page.
fn items(remote: &ServerClient, path: &str, page: &PageArguments) -> Result<Page> {
    if page.limit() == usize::MAX && page.cursor().is_none() {
        let rows = all_items(remote, path)?;
        return Ok(Page { rows, next: None });
    }
    page.fetch(|cursor, limit| {
        let skip: usize = cursor.unwrap_or("0").parse().map_err(|_| bad_cursor())?;
        let count = limit.min(LARGEST_PAGE - 1);
        // One item more shows whether there is a next page.
        let path = format!("{path}?$top={}&$skip={skip}&{VERSION}", count + 1);
        let mut answer: Value = remote.request(Method::GET, &path, None)?;
        let Value::Array(mut rows) = answer["value"].take() else {
            bail!("the server's response is not a list");
        };
        let next = (rows.len() > count).then(|| skip.saturating_add(count).to_string());
        rows.truncate(count);
        Ok(Page { rows, next })
    })
}

/// All items. The links between pages name an item, so a change in between hides none.
fn all_items(remote: &ServerClient, path: &str) -> Result<Vec<Value>> {
    let mut path = format!("{path}?{VERSION}");
    let mut rows = Vec::new();
    loop {
        let mut answer: Value = remote.request(Method::GET, &path, None)?;
        let Value::Array(page) = answer["value"].take() else {
            bail!("the server's response is not a list");
        };
        rows.extend(page);
        // Links are absolute; use the path and the query only.
        let link = answer["nextLink"].as_str();
        match link.and_then(|link| link.find("/subscriptions/").map(|at| &link[at..])) {
            Some(next) => path = next.to_owned(),
            None => return Ok(rows),
        }
    }
}

fn bad_cursor() -> CommandError {
    CommandError::Usage("the cursor is not from this list".to_owned())
}

fn list(
    remote: &ServerClient,
    collection: &str,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let mut page = items(remote, &format!("{collection}/jobs"), page)?;
    let row = |job: Value| {
        let (properties, status) = (&job["properties"], &job["properties"]["status"]);
        json!({
            "name": short_name(&job),
            "state": properties["state"],
            "schedule": schedule(properties),
            "next": status["nextExecutionTime"],
            "last": status["lastExecutionTime"],
            "executions": status["executionCount"],
            "failures": status["failureCount"],
        })
    };
    page.rows = page.rows.into_iter().map(row).collect();
    let columns = &[
        "name",
        "state",
        "schedule",
        "next",
        "executions",
        "failures",
    ];
    let table = Table::new("jobs", columns).wide(&["last"]);
    table.page(page).print(output)
}

/// The name of a job without its collection.
fn short_name(job: &Value) -> Value {
    let name = job["name"].as_str().and_then(|name| name.split_once('/'));
    json!(name.map(|(_, name)| name))
}

fn show(job: &Value, output: OutputFormat) -> Result<()> {
    let (properties, status) = (&job["properties"], &job["properties"]["status"]);
    let mut facts: Facts = vec![
        ("name", job["name"].clone()),
        ("state", properties["state"].clone()),
        ("schedule", schedule(properties)),
    ];
    let zone = &properties["steadfast"]["timeZone"];
    if !zone.is_null() {
        facts.push(("zone", zone.clone()));
    }
    let paused = &properties["steadfast"]["pause"]["reason"];
    if !paused.is_null() {
        facts.push(("paused", paused.clone()));
    }
    facts.extend([
        ("action", properties["action"]["type"].clone()),
        ("target", target(&properties["action"])),
        ("next", status["nextExecutionTime"].clone()),
        ("last", status["lastExecutionTime"].clone()),
        ("executions", status["executionCount"].clone()),
        ("failures", status["failureCount"].clone()),
        ("faults", status["faultedCount"].clone()),
    ]);
    print(&facts, output)
}

/// What a job calls.
fn target(action: &Value) -> Value {
    let internal = &action["internal"];
    let places = [
        &action["request"]["uri"],
        &internal["eventHub"],
        &internal["entity"],
        &internal["orchestration"],
        &action["queueMessage"]["queueName"],
        &action["serviceBusQueueMessage"]["queueName"],
        &action["serviceBusTopicMessage"]["topicPath"],
    ];
    let found = places.into_iter().find(|place| !place.is_null());
    found.cloned().unwrap_or_default()
}

fn history(
    remote: &ServerClient,
    job: &str,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let mut page = items(remote, &format!("{job}/history"), page)?;
    let row = |item: Value| {
        let item = &item["properties"];
        json!({
            "started": item["startTime"],
            "expected": item["expectedExecutionTime"],
            "action": item["actionName"],
            "retry": item["retryCount"],
            "status": item["status"],
            "message": item["message"],
        })
    };
    page.rows = page.rows.into_iter().map(row).collect();
    let columns = &[
        "started", "expected", "action", "retry", "status", "message",
    ];
    Table::new("history", columns).page(page).print(output)
}

fn print_preview(
    remote: &ServerClient,
    scope: &CollectionScope,
    preview: &PreviewArguments,
    output: OutputFormat,
) -> Result<()> {
    let mut body = preview.timing.members()?;
    body.insert("top".into(), json!(preview.limit));
    let subscription = scope.subscription()?;
    let path = format!("{subscription}/providers/Microsoft.Scheduler/previewRecurrence?{VERSION}");
    let found: Value = remote.request(Method::POST, &path, Some(&body.into()))?;
    let mut table = Table::new("runs", &["at"]);
    for at in found["value"].as_array().into_iter().flatten() {
        table.row(json!({"at": at}));
    }
    table.print(output)
}

fn import(
    remote: &ServerClient,
    collection: &str,
    file: &Path,
    output: OutputFormat,
) -> Result<()> {
    let path = format!("{collection}/import?{VERSION}");
    let answer: Value = remote.request(Method::POST, &path, Some(&read(file)?))?;
    let mut table = Table::new("jobs", &["name", "result", "target", "message"]);
    for item in answer["value"].as_array().into_iter().flatten() {
        table.row(item.clone());
    }
    table.print(output)
}

/// Prints all jobs in the form that `import` reads.
fn export(remote: &ServerClient, collection: &str, output: OutputFormat) -> Result<()> {
    let rows = all_items(remote, &format!("{collection}/jobs"))?;
    let output = if output == OutputFormat::Yaml {
        output
    } else {
        OutputFormat::Json
    };
    print_value(&json!({"value": rows}), output)
}
