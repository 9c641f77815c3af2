//! Every example in the help runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast::durable::{Context, FailureDetails, Functions, TaskHubWorker, entity};
use steadfast::realtime::HubResult;
use steadfast::{AppServer, hub};
use steadfast_harness::Process;

use super::{all_commands, examples_in, help_of};
use crate::running::{PATIENCE, Server, Start, finish, said, settle};

/// The commands with examples, in an order in which each finds what it needs.
const ORDER: &[&str] = &[
    "status",
    "top",
    "logs",
    "reload",
    "explain",
    "audit list",
    "time show",
    "config init",
    "config check",
    "config show",
    "doctor",
    "eventhub create",
    "eventhub list",
    "eventhub show",
    "eventhub update",
    "eventhub put-policy",
    "eventhub send",
    "eventhub tail",
    "eventhub group create",
    "eventhub group list",
    "eventhub group show",
    "eventhub group reset",
    "eventhub dead-letter list",
    "eventhub dead-letter replay",
    "eventhub container create",
    "eventhub container list",
    "blob list",
    "blob delete",
    "eventhub container delete",
    "workflow start",
    "workflow list",
    "workflow show",
    "workflow why",
    "workflow history",
    "workflow suspend",
    "workflow resume",
    "workflow raise",
    "workflow terminate",
    "workflow rewind",
    "workflow export",
    "workflow restart",
    "workflow purge",
    "entity signal",
    "entity call",
    "entity get",
    "entity list",
    "entity lock list",
    "entity delete",
    "taskhub list",
    "taskhub show",
    "taskhub worker list",
    "hub token",
    "hub send",
    "hub list",
    "hub client list",
    "hub server list",
    "job collection create",
    "job create",
    "job list",
    "job show",
    "job run",
    "job pause",
    "job resume",
    "job backfill",
    "job history",
    "job preview",
    "job export",
    "job import",
    "job disable",
    "job enable",
    "job delete",
    "job collection list",
    "job collection show",
    "job collection disable",
    "job collection enable",
    "job collection delete",
    "state put",
    "state get",
    "state scan",
    "state tx",
    "state peek",
    "state services",
    "state list",
    "state delete",
    "key create",
    "key list",
    "key show",
    "key rotate",
    "key delete",
    "context add",
    "context list",
    "context show",
    "context use",
    "context remove",
    "eventhub group delete",
    "eventhub delete-policy",
    "eventhub delete",
    "store backup",
    "store backup verify",
    "store inspect",
    "store restore",
    "completions",
    "man",
    "bench",
    "drain",
];

/// Examples that need another server, and the error of this one.
const REFUSED: &[(&str, &str)] = &[
    ("time advance", "STF-7070: the time of this server"),
    ("cluster status", "STF-6031: this node is alone"),
    ("cluster move", "STF-6031: this node is alone"),
    (
        "cluster move-shard",
        "STF-2032: no PostgreSQL server takes writes",
    ),
    (
        "cluster scrub",
        "STF-6031: only the engine postgres has replicas",
    ),
    (
        "cluster region status",
        "STF-6031: this server belongs to no pair",
    ),
    (
        "cluster region failover",
        "STF-6031: this server belongs to no pair",
    ),
    (
        "cluster region failback",
        "STF-6031: this server belongs to no pair",
    ),
    (
        "store migrate",
        "STF-2032: no PostgreSQL server takes writes",
    ),
];

/// An entity that counts.
#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: i64,
}

#[entity]
impl Counter {
    fn add(&mut self, by: i64) -> i64 {
        self.value += by;
        self.value
    }
}

/// The code of the examples.
fn functions(all: Functions) -> Functions {
    let all = all.entities::<Counter>();
    all.orchestration("greet", |context: Context, _: Value| async move {
        context.event::<Value>("approved").await?;
        context.event::<Value>("closed").await
    })
    .orchestration("double", |_: Context, n: u64| async move { Ok(2 * n) })
    .orchestration("break", |_: Context, (): ()| async move {
        Err::<(), _>(FailureDetails::new("Planned", "as planned"))
    })
}

/// A hub that nothing calls.
#[derive(Default)]
struct Chat;

#[hub]
impl Chat {
    async fn greet(&self, _: &steadfast::realtime::Context) -> HubResult<()> {
        Ok(())
    }
}

/// An app server of the hub `chat`.
async fn chat(server: &Server) -> AppServer {
    let (port, key) = (
        server.port(),
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH",
    );
    let service = format!("Endpoint=http://127.0.0.1;Port={port};AccessKey={key};Version=1.0;");
    let app = AppServer::builder(&service).hub::<Chat>("chat");
    let app = app.start().unwrap();
    app.ready().await;
    app
}

/// Runs a line in a shell that finds the command of this build.
fn shell(server: &Server, line: &str) -> (i32, String, String) {
    let folder = server.folder.path();
    let bin = folder.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    settle(&mut command, folder);
    command
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("STEADFAST_URL", &server.url)
        .args(["-c", line])
        .stdin(std::process::Stdio::null());
    said(&finish(command))
}

/// Makes this build's command `bin/steadfast` in a folder.
fn link_binary(folder: &Path) {
    fs::create_dir(folder.join("bin")).unwrap();
    let binary = crate::running::binary();
    std::os::unix::fs::symlink(binary, folder.join("bin/steadfast")).unwrap();
}

/// Runs a server until it is ready.
fn serves(folder: &Path, line: &str) {
    let mut command = Command::new("sh");
    settle(&mut command, folder);
    let line = line.replace("steadfast ", "exec bin/steadfast ");
    command.env("STEADFAST_HTTP__PORT", "0").args(["-c", &line]);
    let mut process = Process::spawn(command).unwrap();
    let ready = process.wait_for(|line| line.contains("is ready"), PATIENCE);
    ready.unwrap_or_else(|error| panic!("{line}: {error}"));
    process.terminate().unwrap();
    assert!(process.wait(PATIENCE).unwrap().success(), "{line}");
}

#[test]
fn every_example_in_the_help_runs() {
    let mut examples = BTreeMap::new();
    for path in all_commands() {
        let found = examples_in(&help_of(path, 120));
        if !found.is_empty() {
            examples.insert(path.join(" "), found);
        }
    }
    let server = Start::new("dev").ready();
    let folder = server.folder.path();
    link_binary(folder);
    fs::write(folder.join("prod.key"), "a key of some length\n").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let connection = format!("Endpoint={};TaskHub=default", server.url);
    let worker = TaskHubWorker::connect(&connection).unwrap();
    let running = worker.functions(functions).start().unwrap();
    runtime.block_on(running.ready());
    let app = chat(&server);
    let _app = runtime.block_on(app);
    let begun = "steadfast workflow start break --id broken --wait 30";
    assert_eq!(shell(&server, begun).0, 5);
    for (name, reason) in REFUSED {
        for line in examples.remove(*name).unwrap_or_default() {
            let (code, printed, errors) = shell(&server, &line);
            assert_eq!(code, 1, "{line}\n{printed}{errors}");
            assert!(errors.contains(reason), "{line}\n{errors}");
        }
    }
    let servers = tempfile::tempdir().unwrap();
    link_binary(servers.path());
    let config = crate::running::run(servers.path(), &["config", "init", "steadfast.toml"]);
    assert!(config.status.success(), "{config:?}");
    for name in ["dev", "serve"] {
        for line in examples.remove(name).unwrap_or_default() {
            serves(servers.path(), &line);
        }
    }
    for name in ORDER {
        let Some(lines) = examples.remove(*name) else {
            continue;
        };
        for line in lines {
            let (code, printed, errors) = shell(&server, &line);
            assert_eq!(code, 0, "{line}\n{printed}{errors}");
        }
    }
    let left: Vec<_> = examples.keys().collect();
    assert_eq!(left, Vec::<&String>::new(), "examples that are not run");
}
