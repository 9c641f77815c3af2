//! `steadfast eventhub`: create, change, delete event hubs.

use anyhow::{Result, anyhow};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};
use steadfast::config::{duration, size};

use crate::context::Target;
use crate::out::out;
use crate::result::{Facts, print};
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table, display_value};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create an event hub and show its connection strings
    Create {
        /// Its name
        name: String,
        /// Number of partitions; cannot be changed later
        #[arg(long, value_name = "N", default_value_t = 4)]
        partitions: u32,
        /// A consumer group beside `$Default`; may be repeated
        #[arg(long = "group", value_name = "NAME")]
        groups: Vec<String>,
        /// Retention time of events, such as 1d; unlimited unless set
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        retention: Option<u64>,
        /// Retention size of each partition, such as 1GiB; unlimited unless set
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        retention_size: Option<u64>,
    },
    /// Show all event hubs
    List,
    /// Show an event hub, its partitions and connection strings
    Show {
        /// Which event hub
        name: String,
    },
    /// Change the retention of an event hub; unnamed options keep their value
    Update {
        /// Which event hub
        name: String,
        /// Retention time of events, such as 7d, or `forever`
        #[arg(long, value_name = "TIME", value_parser = new_seconds)]
        retention: Option<RetentionLimit>,
        /// Retention size of each partition, such as 1GiB, or `all`
        #[arg(long, value_name = "SIZE", value_parser = new_bytes)]
        retention_size: Option<RetentionLimit>,
    },
    /// Create a policy and show its connection string, or change its rights
    PutPolicy {
        /// Which event hub
        hub: String,
        /// Name of the policy; an existing one keeps its keys
        policy: String,
        /// A right: send, listen or manage; may be repeated
        #[arg(long = "right", value_name = "RIGHT", required = true)]
        rights: Vec<String>,
    },
    /// Delete a policy and revoke its keys
    DeletePolicy {
        /// Which event hub
        hub: String,
        /// Which policy
        policy: String,
    },
    /// Delete an event hub with its events, groups and checkpoints
    Delete {
        /// Which event hub
        name: String,
    },
}

/// A limit of the retention; `None` is unlimited.
#[derive(Clone, Copy)]
pub(crate) struct RetentionLimit(Option<u64>);

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::Create {
            name,
            partitions,
            groups,
            retention,
            retention_size,
        } => {
            let body = json!({
                "name": name,
                "partitions": partitions,
                "groups": groups,
                "retention_s": retention,
                "retention_bytes": retention_size,
            });
            let made: Value = remote.request(Method::POST, "/v1/eventhubs", Some(&body))?;
            match output {
                OutputFormat::Json => out(&serde_json::to_string_pretty(&made)?),
                OutputFormat::Table => print(&facts(&made), output),
            }
        }
        Command::List => list(&remote, output),
        Command::Show { name } => show(&remote, name, output),
        Command::Update {
            name,
            retention,
            retention_size,
        } => {
            let mut body = Map::new();
            let bounds = [
                ("retention_s", retention),
                ("retention_bytes", retention_size),
            ];
            for (field, bound) in bounds {
                if let Some(RetentionLimit(bound)) = bound {
                    body.insert(field.to_owned(), json!(bound));
                }
            }
            let path = format!("/v1/eventhubs/{}", segment(name)?);
            let body = Value::Object(body);
            let changed: Value = remote.request(Method::PATCH, &path, Some(&body))?;
            match output {
                OutputFormat::Json => out(&serde_json::to_string_pretty(&changed)?),
                OutputFormat::Table => print(&facts(&changed), output),
            }
        }
        Command::PutPolicy {
            hub,
            policy,
            rights,
        } => put_policy(&remote, hub, policy, rights, output),
        Command::DeletePolicy { hub, policy } => {
            delete(&remote, &policy_path(hub, policy)?)?;
            print(&[("deleted", json!(policy))], output)
        }
        Command::Delete { name } => {
            delete(&remote, &format!("/v1/eventhubs/{}", segment(name)?))?;
            print(&[("deleted", json!(name))], output)
        }
    }
}

/// Deletes the resource at a path.
pub(crate) fn delete(remote: &ServerClient, path: &str) -> Result<()> {
    let Value::Null = remote.request(Method::DELETE, path, None)? else {
        anyhow::bail!("the server answered more than it should");
    };
    Ok(())
}

fn policy_path(hub: &str, policy: &str) -> Result<String> {
    let (hub, policy) = (segment(hub)?, segment(policy)?);
    Ok(format!("/v1/eventhubs/{hub}/policies/{policy}"))
}

fn put_policy(
    remote: &ServerClient,
    hub: &str,
    policy: &str,
    rights: &[String],
    output: OutputFormat,
) -> Result<()> {
    let body = json!({"rights": rights});
    let path = policy_path(hub, policy)?;
    let made: Value = remote.request(Method::PUT, &path, Some(&body))?;
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(&made)?);
    }
    let facts: Facts = vec![
        ("policy", made["name"].clone()),
        ("rights", json!(display_value(&made["rights"]))),
        ("connect", made["connection_string"].clone()),
    ];
    print(&facts, output)
}

/// A list of rows in a response.
pub(crate) fn rows<'a>(answer: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    let rows = answer[name].as_array();
    rows.ok_or_else(|| anyhow!("the server's answer has no '{name}'"))
}

fn list(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let answer: Value = remote.request(Method::GET, "/v1/eventhubs", None)?;
    let columns = &[
        "name",
        "partitions",
        "groups",
        "retention_s",
        "retention_bytes",
        "created",
    ];
    let mut table = Table::new("eventhubs", columns);
    for hub in rows(&answer, "eventhubs")? {
        table.row(hub.clone());
    }
    table.print(output)
}

fn show(remote: &ServerClient, name: &str, output: OutputFormat) -> Result<()> {
    let path = format!("/v1/eventhubs/{}", segment(name)?);
    let hub: Value = remote.request(Method::GET, &path, None)?;
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(&hub)?);
    }
    print(&facts(&hub), output)?;
    out(&"")?;
    let columns = &[
        "partition",
        "events",
        "first_sequence",
        "last_sequence",
        "last_time",
    ];
    let mut table = Table::new("partitions", columns);
    for state in rows(&hub, "partition_states")? {
        table.row(state.clone());
    }
    table.print(output)
}

fn facts(hub: &Value) -> Facts {
    let mut facts: Facts = vec![
        ("name", hub["name"].clone()),
        ("partitions", hub["partitions"].clone()),
        ("groups", json!(display_value(&hub["groups"]))),
        ("created", hub["created"].clone()),
    ];
    if let Some(seconds) = hub["retention_s"].as_u64() {
        facts.push(("kept for", json!(format!("{seconds} s"))));
    }
    if let Some(bytes) = hub["retention_bytes"].as_u64() {
        facts.push(("kept", json!(format!("{bytes} bytes a partition"))));
    }
    for (policy, text) in hub["connection_strings"].as_object().into_iter().flatten() {
        facts.push(("policy", json!(policy)));
        facts.push(("connect", text.clone()));
    }
    facts
}

fn seconds(text: &str) -> Result<u64, String> {
    // Retention is often given in days.
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.trim().parse::<u64>().ok());
    let days = days.and_then(|days| days.checked_mul(24 * 60 * 60));
    let found = days.or_else(|| duration(text).map(|time| time.as_secs()));
    found.ok_or_else(|| "write a time such as 90s, 12h or 7d".to_owned())
}

fn new_seconds(text: &str) -> Result<RetentionLimit, String> {
    match text {
        "forever" => Ok(RetentionLimit(None)),
        text => seconds(text).map(|found| RetentionLimit(Some(found))),
    }
}

fn new_bytes(text: &str) -> Result<RetentionLimit, String> {
    match text {
        "all" => Ok(RetentionLimit(None)),
        text => bytes(text).map(|found| RetentionLimit(Some(found))),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| "write a size such as 64MiB or 1GiB".to_owned())
}
