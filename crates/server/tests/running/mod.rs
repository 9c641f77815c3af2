//! A server in a process and a folder of its own.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod encrypted;
pub(crate) mod stalls;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use steadfast_harness::Process;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The key of `steadfast dev`.
pub(crate) const KNOWN: &str = "SAS_KEY_VALUE";

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. It is killed on drop.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) folder: TempDir,
    /// Where it listens: `http://127.0.0.1:1234`.
    pub(crate) url: String,
    pub(crate) client: Client,
    runtime: Runtime,
}

/// What a server is started with.
pub(crate) struct Start {
    pub(crate) command: Command,
    pub(crate) folder: TempDir,
}

/// The binary: the one that was built with the tests, unless `STEADFAST_BINARY` names
/// another, from the root of the workspace.
pub(crate) fn binary() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("STEADFAST_BINARY") {
        Some(path) => root.join(path),
        None => env!("CARGO_BIN_EXE_steadfast").into(),
    }
}

/// A command in an environment without settings of the user who runs the tests.
pub(crate) fn steadfast(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    settle(&mut command, folder);
    command
}

/// Gives a command a folder, and removes settings of the user who runs the tests.
pub(crate) fn settle(command: &mut Command, folder: &Path) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["STEADFAST_", "OTEL_", "NOTIFY_"]
            .iter()
            .any(|own| name.starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("home"))
        // Tests run side by side.
        .env("STEADFAST_EVENTS__AMQP_PORT", "0")
        .env("STEADFAST_EVENTS__AMQPS_PORT", "0")
        .env("STEADFAST_DURABLE__PORT", "0")
        .env("STEADFAST_EVENTS__BLOB_PORT", "0")
        .env("STEADFAST_REALTIME__PORT", "0");
}

/// Runs a command in a folder until it ends.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = steadfast(folder);
    command.args(arguments);
    finish(command)
}

/// The same with an access key.
pub(crate) fn run_with_key(folder: &Path, key: &str, arguments: &[&str]) -> Output {
    let mut command = steadfast(folder);
    command.env("STEADFAST_KEY", key).args(arguments);
    finish(command)
}

/// Runs a command until it ends; one that does not is killed.
pub(crate) fn finish(mut command: Command) -> Output {
    let stderr = tempfile::NamedTempFile::new().unwrap();
    command.stderr(stderr.reopen().unwrap());
    let mut process = Process::spawn(command).unwrap();
    let status = process.wait(PATIENCE);
    let mut stdout = Vec::new();
    while let Ok(line) = process.next_line(Duration::from_secs(5)) {
        stdout.extend(line.into_bytes());
        stdout.push(b'\n');
    }
    let stderr = fs::read(stderr.path()).unwrap();
    match status {
        Ok(status) => Output {
            status,
            stdout,
            stderr,
        },
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&stderr)),
    }
}

/// What a command wrote, and its exit code.
pub(crate) fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

impl Start {
    /// `steadfast <mode>` on a free port, in a new folder.
    pub(crate) fn new(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = steadfast(folder.path());
        command.args([mode, "--set", "http.port=0"]);
        Self { command, folder }
    }

    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.command.args(["--set", setting]);
        self
    }

    pub(crate) fn config(mut self, text: &str) -> Self {
        fs::write(self.folder.path().join("steadfast.toml"), text).unwrap();
        self.command.args(["--config", "steadfast.toml"]);
        self
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn ready(mut self) -> Server {
        let log = File::create(self.folder.path().join("log")).unwrap();
        self.command.stderr(log);
        let mut process = Process::spawn(self.command).unwrap();
        let path = self.folder.path().join("log");
        let url = match address(&mut process) {
            Ok(url) => url,
            Err(error) => panic!("{error}: {}", fs::read_to_string(path).unwrap()),
        };
        // The tests and the binary encrypt with ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Server {
            process,
            folder: self.folder,
            url,
            client: Client::builder().timeout(PATIENCE).build().unwrap(),
            runtime,
        }
    }
}

/// The first address that a server prints.
fn address(process: &mut Process) -> Result<String, String> {
    let wait = |process: &mut Process, text: &'static str| {
        let line = process.wait_for(|line| line.contains(text), PATIENCE);
        line.map_err(|error| error.to_string())
    };
    wait(process, "is ready")?;
    let line = wait(process, "http")?;
    Ok(line
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned())
}

impl Server {
    /// Runs something of the tests that waits.
    pub(crate) fn block<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Asks with a key; answers status and body.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .header("authorization", key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.block(async {
            let answer = request.send().await.unwrap();
            let status = answer.status();
            let text = answer.text().await.unwrap();
            let body = serde_json::from_str(&text);
            (status, body.unwrap_or(Value::String(text)))
        })
    }

    pub(crate) fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, &format!("Bearer {KNOWN}"), None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, &format!("Bearer {KNOWN}"), Some(body))
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = steadfast(self.folder.path());
        command.env("STEADFAST_URL", &self.url).args(arguments);
        finish(command)
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// The port of a protocol, for instance `amqp`.
    pub(crate) fn port_of(&self, name: &str) -> u16 {
        self.port_of_with(name, KNOWN)
    }

    /// The same of a server that does not know the usual key.
    pub(crate) fn port_of_with(&self, name: &str, key: &str) -> u16 {
        let bearer = format!("Bearer {key}");
        let (_, status) = self.ask(Method::GET, "/v1/status", &bearer, None);
        let addresses = status["addresses"].as_array().unwrap();
        let found = addresses.iter().find(|own| own[0] == name).unwrap();
        let url = found[1].as_str().unwrap();
        url.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("steadfast-data")
    }

    /// All that it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits until it has logged a text; answers the whole log.
    pub(crate) fn logged(&self, text: &str) -> String {
        until(text, || Some(self.log()).filter(|log| log.contains(text)))
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; answers its exit code and what it still printed.
    pub(crate) fn ended(&mut self) -> (i32, String) {
        let status = self.process.wait(PATIENCE).unwrap();
        let mut text = String::new();
        while let Ok(line) = self.process.next_line(Duration::from_secs(5)) {
            text += &line;
            text.push('\n');
        }
        (status.code().unwrap_or(-1), text)
    }
}

/// Polls for an event of another process, which sends no signal.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let tick = Duration::from_millis(20);
    let ticks = PATIENCE.as_millis() / tick.as_millis();
    for _ in 0..ticks {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(tick);
    }
    panic!("in vain: {what}");
}
