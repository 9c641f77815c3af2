//! `steadfast job` and `collection`: scheduler jobs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::context::Target;
use crate::result::print;
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table};

const VERSION: &str = "api-version=2016-03-01";

/// The scope of a job collection.
#[derive(Args)]
pub(crate) struct CollectionScope {
    /// The subscription, which may be any name
    #[arg(long, global = true, default_value = "main")]
    subscription: String,
    /// The resource group
    #[arg(long, global = true, default_value = "default")]
    group: String,
}

#[derive(Subcommand)]
pub(crate) enum CollectionSubcommand {
    /// Create a collection
    Create {
        /// Its name
        name: String,
        /// The plan that limits its jobs: Free, Standard, P10Premium or P20Premium
        #[arg(long, default_value = "Standard")]
        sku: String,
        /// Maximum number of jobs
        #[arg(long)]
        max_jobs: Option<u32>,
    },
    /// Show all collections
    List,
    /// Show a collection
    Show {
        /// Which one
        name: String,
    },
    /// Enable all jobs of a collection
    Enable {
        /// Which one
        name: String,
    },
    /// Disable all jobs of a collection
    Disable {
        /// Which one
        name: String,
    },
    /// Delete a collection and its jobs
    Delete {
        /// Which one
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum JobSubcommand {
    /// Create or replace a job
    Create(CreateJobArguments),
    /// Show the jobs of a collection
    List {
        /// Which collection
        collection: String,
    },
    /// Show a job
    Show(JobName),
    /// Run a job now
    Run(JobName),
    /// Enable a job
    Enable(JobName),
    /// Disable a job
    Disable(JobName),
    /// Delete a job and its history
    Delete(JobName),
    /// Show the attempts of a job, newest first
    History(JobName),
    /// Show when a job would run, without creating it
    Preview(PreviewArguments),
    /// Import jobs that were exported from Azure Scheduler
    Import {
        /// The collection to import into
        collection: String,
        /// The exported JSON
        file: PathBuf,
    },
}

/// A job.
#[derive(Args)]
pub(crate) struct JobName {
    /// Its collection
    collection: String,
    /// Its name
    name: String,
}

/// The action and the schedule of a job.
#[derive(Args)]
pub(crate) struct CreateJobArguments {
    #[command(flatten)]
    which: JobName,
    /// The address to call
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["file", "publish"])]
    call: Option<String>,
    /// The event hub of this server to publish to, instead of a call
    #[arg(long, value_name = "EVENTHUB", conflicts_with_all = ["call", "file"])]
    publish: Option<String>,
    /// The partition key of the published event
    #[arg(long, requires = "publish")]
    key: Option<String>,
    /// The method of the call
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

/// The schedule of a job.
#[derive(Args)]
pub(crate) struct TimingArguments {
    /// First run, such as 2030-01-01T05:00:00Z
    #[arg(long)]
    start: Option<String>,
    /// Interval: [N]minute, hour, day, week or month, such as `15minute` or `day`
    #[arg(long, conflicts_with = "cron")]
    every: Option<String>,
    /// A cron expression of 5 or 6 fields
    #[arg(long)]
    cron: Option<String>,
    /// An IANA time zone
    #[arg(long)]
    zone: Option<String>,
    /// Maximum number of runs
    #[arg(long)]
    count: Option<u32>,
}

/// A preview.
#[derive(Args)]
pub(crate) struct PreviewArguments {
    #[command(flatten)]
    timing: TimingArguments,
    /// Number of runs to show
    #[arg(long, default_value_t = 10)]
    top: u32,
}

impl CollectionScope {
    fn all(&self) -> Result<String> {
        let subscription = segment(&self.subscription)?;
        Ok(format!("/subscriptions/{subscription}"))
    }

    fn collections(&self) -> Result<String> {
        let (all, group) = (self.all()?, segment(&self.group)?);
        Ok(format!(
            "{all}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections"
        ))
    }

    fn collection(&self, name: &str) -> Result<String> {
        Ok(format!("{}/{}", self.collections()?, segment(name)?))
    }

    fn job(&self, which: &JobName) -> Result<String> {
        let home = self.collection(&which.collection)?;
        Ok(format!("{home}/jobs/{}", segment(&which.name)?))
    }
}

impl TimingArguments {
    /// The schedule as JSON members of a job or a preview.
    fn members(&self) -> Result<Map<String, Value>> {
        let mut members = Map::new();
        if let Some(start) = &self.start {
            members.insert("startTime".into(), json!(start));
        }
        let mut repeat = self.every.as_deref().map(every).transpose()?;
        if self.cron.is_some() && self.count.is_some() {
            // With a cron expression, the recurrence only carries the count.
            repeat = Some(json!({"frequency": "Day"}));
        }
        if let (Some(repeat), Some(count)) = (&mut repeat, self.count) {
            repeat["count"] = json!(count);
        }
        members.extend(repeat.map(|repeat| ("recurrence".to_owned(), repeat)));
        let mut own = Map::new();
        own.extend(
            self.cron
                .as_ref()
                .map(|cron| ("cron".to_owned(), json!(cron))),
        );
        own.extend(
            self.zone
                .as_ref()
                .map(|zone| ("timeZone".to_owned(), json!(zone))),
        );
        if !own.is_empty() {
            members.insert("steadfast".into(), own.into());
        }
        Ok(members)
    }
}

/// Parses `15minute`.
fn every(text: &str) -> Result<Value> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let interval: u32 = match number {
        "" => 1,
        number => number
            .parse()
            .with_context(|| format!("'{number}' is too large"))?,
    };
    Ok(json!({"frequency": unit.trim_end_matches('s'), "interval": interval}))
}

/// Runs a command on job collections.
pub(crate) fn collections(
    command: &CollectionSubcommand,
    place: &CollectionScope,
    target: &Target,
    output: OutputFormat,
) -> Result<()> {
    let remote = ServerClient::new(target)?;
    let (name, method, path, word) = match command {
        CollectionSubcommand::Create {
            name,
            sku,
            max_jobs,
        } => {
            let mut properties = json!({"sku": {"name": sku}});
            if let Some(count) = max_jobs {
                properties["quota"] = json!({"maxJobCount": count});
            }
            let path = format!("{}?{VERSION}", place.collection(name)?);
            let body = json!({"properties": properties});
            let _: Value = remote.request(Method::PUT, &path, Some(&body))?;
            return print(&[("created", json!(name))], output);
        }
        CollectionSubcommand::List => return list_collections(&remote, place, output),
        CollectionSubcommand::Show { name } => {
            let path = format!("{}?{VERSION}", place.collection(name)?);
            let found: Value = remote.request(Method::GET, &path, None)?;
            return show_collection(&found, output);
        }
        CollectionSubcommand::Enable { name } => (name, Method::POST, "/enable", "enabled"),
        CollectionSubcommand::Disable { name } => (name, Method::POST, "/disable", "disabled"),
        CollectionSubcommand::Delete { name } => (name, Method::DELETE, "", "deleted"),
    };
    let path = format!("{}{path}?{VERSION}", place.collection(name)?);
    let _: Value = remote.request(method, &path, None)?;
    print(&[(word, json!(name))], output)
}

fn list_collections(
    remote: &ServerClient,
    place: &CollectionScope,
    output: OutputFormat,
) -> Result<()> {
    let path = format!("{}?{VERSION}", place.collections()?);
    let found: Value = remote.request(Method::GET, &path, None)?;
    let mut table = Table::new("collections", &["name", "state", "sku", "max_jobs"]);
    for item in found["value"].as_array().into_iter().flatten() {
        let properties = &item["properties"];
        table.row(json!({
            "name": item["name"],
            "state": properties["state"],
            "sku": properties["sku"]["name"],
            "max_jobs": properties["quota"]["maxJobCount"],
        }));
    }
    table.print(output)
}

fn show_collection(found: &Value, output: OutputFormat) -> Result<()> {
    let properties = &found["properties"];
    let facts = [
        ("name", found["name"].clone()),
        ("state", properties["state"].clone()),
        ("sku", properties["sku"]["name"].clone()),
        ("max_jobs", properties["quota"]["maxJobCount"].clone()),
    ];
    print(&facts, output)
}

/// Runs a command on jobs.
pub(crate) fn jobs(
    command: &JobSubcommand,
    place: &CollectionScope,
    target: &Target,
    output: OutputFormat,
) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        JobSubcommand::Create(create) => make(&remote, place, create, output),
        JobSubcommand::List { collection } => list(&remote, &place.collection(collection)?, output),
        JobSubcommand::Show(which) => {
            let path = format!("{}?{VERSION}", place.job(which)?);
            show(&remote.request(Method::GET, &path, None)?, output)
        }
        JobSubcommand::Run(which) => {
            let path = format!("{}/run?{VERSION}", place.job(which)?);
            let _: Value = remote.request(Method::POST, &path, None)?;
            print(&[("running", json!(which.name))], output)
        }
        JobSubcommand::Enable(which) => set_state(&remote, place, which, "Enabled", output),
        JobSubcommand::Disable(which) => set_state(&remote, place, which, "Disabled", output),
        JobSubcommand::Delete(which) => {
            let path = format!("{}?{VERSION}", place.job(which)?);
            let _: Value = remote.request(Method::DELETE, &path, None)?;
            print(&[("deleted", json!(which.name))], output)
        }
        JobSubcommand::History(which) => history(&remote, &place.job(which)?, output),
        JobSubcommand::Preview(wanted) => preview(&remote, place, wanted, output),
        JobSubcommand::Import { collection, file } => {
            import(&remote, &place.collection(collection)?, file, output)
        }
    }
}

fn read(file: &PathBuf) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))
}

fn make(
    remote: &ServerClient,
    place: &CollectionScope,
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
    let path = format!("{}?{VERSION}", place.job(&create.which)?);
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
    place: &CollectionScope,
    which: &JobName,
    state: &str,
    output: OutputFormat,
) -> Result<()> {
    let path = format!("{}?{VERSION}", place.job(which)?);
    let body = json!({"properties": {"state": state}});
    show(&remote.request(Method::PATCH, &path, Some(&body))?, output)
}

fn list(remote: &ServerClient, home: &str, output: OutputFormat) -> Result<()> {
    let columns = &["name", "state", "next", "executions", "failures"];
    let mut table = Table::new("jobs", columns);
    let mut path = format!("{home}/jobs?{VERSION}");
    loop {
        let page: Value = remote.request(Method::GET, &path, None)?;
        for job in page["value"].as_array().into_iter().flatten() {
            let (name, status) = (&job["name"], &job["properties"]["status"]);
            let name = name.as_str().and_then(|name| name.split_once('/'));
            table.row(json!({
                "name": name.map(|(_, name)| name),
                "state": job["properties"]["state"],
                "next": status["nextExecutionTime"],
                "executions": status["executionCount"],
                "failures": status["failureCount"],
            }));
        }
        // Links are absolute; use the path and the query only.
        let next = page["nextLink"]
            .as_str()
            .and_then(|link| link.find("/subscriptions/").map(|at| &link[at..]));
        match next {
            Some(next) => path = next.to_owned(),
            None => return table.print(output),
        }
    }
}

fn show(job: &Value, output: OutputFormat) -> Result<()> {
    let (properties, status) = (&job["properties"], &job["properties"]["status"]);
    let request = &properties["action"]["request"];
    let facts = [
        ("name", job["name"].clone()),
        ("state", properties["state"].clone()),
        ("action", properties["action"]["type"].clone()),
        ("url", request["uri"].clone()),
        ("next", status["nextExecutionTime"].clone()),
        ("last", status["lastExecutionTime"].clone()),
        ("executions", status["executionCount"].clone()),
        ("failures", status["failureCount"].clone()),
        ("faults", status["faultedCount"].clone()),
    ];
    print(&facts, output)
}

fn history(remote: &ServerClient, job: &str, output: OutputFormat) -> Result<()> {
    let path = format!("{job}/history?$top=100&{VERSION}");
    let page: Value = remote.request(Method::GET, &path, None)?;
    let columns = &[
        "started", "expected", "action", "retry", "status", "message",
    ];
    let mut table = Table::new("history", columns);
    for item in page["value"].as_array().into_iter().flatten() {
        let item = &item["properties"];
        table.row(json!({
            "started": item["startTime"],
            "expected": item["expectedExecutionTime"],
            "action": item["actionName"],
            "retry": item["retryCount"],
            "status": item["status"],
            "message": item["message"],
        }));
    }
    table.print(output)
}

fn preview(
    remote: &ServerClient,
    place: &CollectionScope,
    wanted: &PreviewArguments,
    output: OutputFormat,
) -> Result<()> {
    let mut body = wanted.timing.members()?;
    body.insert("top".into(), json!(wanted.top));
    let all = place.all()?;
    let path = format!("{all}/providers/Microsoft.Scheduler/previewRecurrence?{VERSION}");
    let found: Value = remote.request(Method::POST, &path, Some(&body.into()))?;
    let mut table = Table::new("runs", &["at"]);
    for at in found["value"].as_array().into_iter().flatten() {
        table.row(json!({"at": at}));
    }
    table.print(output)
}

fn import(remote: &ServerClient, home: &str, file: &PathBuf, output: OutputFormat) -> Result<()> {
    let path = format!("{home}/import?{VERSION}");
    let told: Value = remote.request(Method::POST, &path, Some(&read(file)?))?;
    let mut table = Table::new("jobs", &["name", "result", "target", "message"]);
    for item in told["value"].as_array().into_iter().flatten() {
        table.row(item.clone());
    }
    table.print(output)
}
