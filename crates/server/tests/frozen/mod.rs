//! State that the version before has written.
//!
//! A server of today opens a copy of it. `fixtures/frozen-1` says by which version and
//! commands it was written.
#![allow(dead_code, reason = "each test uses a part of it")]

mod answers;
mod durable;
mod events;
mod jobs;
mod state;
mod typed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;

use crate::running::{KNOWN, Server, Start, steadfast};

/// Frozen state, unpacked.
pub(crate) struct Frozen {
    /// The recorded answers, secrets and numbers.
    fixture: PathBuf,
    folder: TempDir,
    /// The settings that name the engine.
    sets: Vec<String>,
}

impl Frozen {
    /// Unpacks a data folder from an archive of the fixture.
    pub(crate) fn unpack(part: &str, archive: &str) -> Self {
        let fixture = fixture().join(part);
        let folder = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(fixture.join(archive));
        let done = tar.arg("-C").arg(folder.path()).status().unwrap();
        assert!(done.success(), "{archive} cannot be unpacked");
        Self {
            fixture,
            folder,
            sets: vec!["partitions=4".to_owned()],
        }
    }

    /// Uses a database for everything but the files of keys.
    pub(crate) fn on_database(mut self, url: &str) -> Self {
        let engine = "engine=postgres".to_owned();
        let key = self.folder.path().join("steadfast-data/secret.key");
        let key = format!("jobs.secret_key={}", key.display());
        self.sets
            .extend([engine, format!("postgres.url={url}"), key]);
        self
    }

    /// The SQL of a database, beside the data folder.
    pub(crate) fn dump(&self) -> PathBuf {
        self.folder.path().join("dump.sql")
    }

    /// A file of the fixture as JSON.
    fn read(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.fixture.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Opens the state, compares everything with what was recorded, and lets every
    /// service go on.
    pub(crate) fn check(self) {
        let (recorded, facts) = (self.read("answers.json"), self.read("facts.json"));
        let producer = self.read("producer.json");
        let proxy = jobs::Proxy::start();
        let mut sets = self.sets;
        sets.push(format!("jobs.proxy=http://127.0.0.1:{}", proxy.port));

        let server = start(self.folder, &sets);
        answers::are_the_same(&server, &recorded);
        state::goes_on(&server, &recorded);
        events::go_on(&server, &recorded, &facts);
        durable::goes_on(&server);
        jobs::go_on(&server, &proxy);
        let folder = stop(server);

        let data = folder.path().join("steadfast-data");
        let own = [&sets[..], &[format!("data={}", data.display())]].concat();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(typed::goes_on(&own, &producer));
        drop(runtime);

        let server = start(folder, &sets);
        state::is_kept(&server);
        events::are_kept(&server);
        durable::is_kept(&server);
        stop(server);
    }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen-1")
}

fn start(folder: TempDir, sets: &[String]) -> Server {
    let mut command = steadfast(folder.path());
    command.args(["dev", "--set", "http.port=0"]);
    for set in sets {
        command.args(["--set", set]);
    }
    Start { command, folder }.ready()
}

fn stop(mut server: Server) -> TempDir {
    server.process.terminate().unwrap();
    let (code, _) = server.ended();
    assert_eq!(code, 0, "{}", server.log());
    server.folder
}

/// Sends a request that must succeed; returns its answer.
fn ok(server: &Server, method: &Method, path: &str, body: Option<Value>) -> Value {
    let key = format!("Bearer {KNOWN}");
    let (status, answer) = server.ask(method.clone(), path, &key, body);
    assert!(status.is_success(), "{method} {path}: {status} {answer}");
    answer
}

fn get(server: &Server, path: &str) -> Value {
    ok(server, &Method::GET, path, None)
}

fn put(server: &Server, path: &str, body: Value) {
    ok(server, &Method::PUT, path, Some(body));
}

fn post(server: &Server, path: &str, body: Value) -> Value {
    ok(server, &Method::POST, path, Some(body))
}
