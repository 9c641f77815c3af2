//! Two regions, a witness, and the lines between them.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod jobs;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_harness::{FaultProxy, reserve_port};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub(crate) use self::jobs::Heard;
use self::jobs::Target;
use crate::running::stalls::Stalls;
use crate::running::{self, KNOWN, Server, Start, until};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// The regions of the test; most jobs have their home in the first one.
const NAMES: [&str; 2] = ["East US", "West US"];

/// What the other home's job calls.
const OTHERS: &str = "/others";

/// A command that runs; its exit code, and what it says.
pub(crate) type Saying = std::thread::JoinHandle<(i32, String)>;

/// Two regions and a witness.
pub(crate) struct Pair {
    servers: [Option<Server>; 2],
    witness: Server,
    /// From each region to the other one, and from each to the witness.
    across: [FaultProxy; 2],
    up: [FaultProxy; 2],
    ports: [u16; 2],
    /// What both regions have in their files.
    config: &'static str,
    target: Target,
    stalls: Stalls,
    runtime: Runtime,
}

#[expect(clippy::disallowed_methods, reason = "processes run in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(crate) fn set_up(region: &str, port: u16) -> Start {
    Start::new("dev")
        .set(&format!("jobs.region={region}"))
        .set(&format!("cluster.port={port}"))
        .set(&format!("cluster.key={KEY}"))
        .set("partitions=8")
        .set("jobs.quotas=false")
        .set("jobs.allow_seconds=true")
        .set("log.level=info,steadfast_partition=debug,steadfast_cluster_rpc=debug")
}

impl Pair {
    /// All three, until one region owns the jobs and the other has everything.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same, with something in the files of both regions.
    pub(crate) fn start_with(config: &'static str) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let ports = [reserve_port().unwrap(), reserve_port().unwrap()];
        let witness_port = reserve_port().unwrap();
        let proxy = |to| runtime.block_on(FaultProxy::start(at(to))).unwrap();
        let mut pair = Self {
            witness: set_up("witness", witness_port).ready(),
            across: [proxy(ports[1]), proxy(ports[0])],
            up: [proxy(witness_port), proxy(witness_port)],
            servers: [None, None],
            ports,
            config,
            target: Target::start(),
            stalls: Stalls::watch(),
            runtime,
        };
        for index in [0, 1] {
            pair.launch(index);
        }
        pair.synced(0);
        pair.synced_home(1, 1);
        pair
    }

    fn launch(&mut self, index: usize) {
        let start = set_up(NAMES[index], self.ports[index])
            .config(self.config)
            .set(&format!("jobs.pair={}", self.across[index].address()))
            .set(&format!("jobs.witness={}", self.up[index].address()));
        self.servers[index] = Some(start.ready());
    }

    /// What a limit is on this machine, which may stand still.
    pub(crate) fn allowed(&self, limit: Duration) -> Duration {
        limit + self.stalls.lost()
    }

    /// The home of most jobs.
    pub(crate) fn home(&self) -> usize {
        0
    }

    pub(crate) fn name(&self, index: usize) -> &'static str {
        NAMES[index]
    }

    fn server(&self, index: usize) -> &Server {
        self.servers[index].as_ref().unwrap()
    }

    /// Whom the jobs call.
    pub(crate) fn action(&self, path: &str) -> Value {
        let uri = format!("{}{path}", self.target.url);
        json!({"type": "Http", "request": {"method": "POST", "uri": uri, "body": "x"}})
    }

    /// How the jobs of a home stand, as a region sees it.
    pub(crate) fn standing(&self, index: usize, home: usize) -> Value {
        let (status, mut standing) = self.server(index).get("/v1/region");
        assert_eq!(status, StatusCode::OK, "{standing}");
        let homes = standing["homes"].as_array_mut().unwrap().iter_mut();
        let mut homes = homes.filter(|one| one["home"] == NAMES[home]);
        homes.next().unwrap().take()
    }

    /// Waits until a region owns most jobs and the other one has everything.
    pub(crate) fn synced(&self, index: usize) {
        self.synced_home(index, self.home());
    }

    /// The same for the jobs of another home.
    pub(crate) fn synced_home(&self, index: usize, home: usize) {
        let what = format!("{} owns jobs of {}, in sync", NAMES[index], NAMES[home]);
        until(&what, || {
            let standing = self.standing(index, home);
            (standing["is_owner"] == true && standing["mode"] == "synced").then_some(())
        });
    }

    /// Waits until a region owns most jobs.
    pub(crate) fn owned_by(&self, index: usize) {
        until(&format!("{} is the owner", NAMES[index]), || {
            (self.standing(index, self.home())["is_owner"] == true).then_some(())
        });
    }

    /// About the collection of most jobs.
    fn ask(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, HeaderMap, Value) {
        self.request(index, method, &format!("/c{path}"), body)
    }

    /// About any collection, or all of them.
    pub(crate) fn request(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, HeaderMap, Value) {
        let request = self.prepared(index, method, path, body);
        self.server(index).block(async {
            let answer = request.send().await.unwrap();
            let (status, headers) = (answer.status(), answer.headers().clone());
            let text = answer.text().await.unwrap();
            let body = serde_json::from_str(&text);
            (status, headers, body.unwrap_or(Value::String(text)))
        })
    }

    fn prepared(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> RequestBuilder {
        let server = self.server(index);
        let place = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler";
        let url = format!(
            "{}{place}/jobCollections{path}{}api-version=2016-03-01",
            server.url,
            if path.contains('?') { "" } else { "?" }
        );
        let request = server.client.request(method, url);
        let mut request = request.header("authorization", format!("Bearer {KNOWN}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        request
    }

    /// Asks both regions at once for a collection, each for one of its own.
    pub(crate) fn both_make(&self, path: &str) -> [StatusCode; 2] {
        let [one, other] = [0, 1].map(|index| {
            let body = json!({"location": NAMES[index], "properties": {}});
            self.prepared(index, Method::PUT, path, Some(&body))
        });
        let (one, other) = self
            .runtime
            .block_on(async { tokio::join!(one.send(), other.send()) });
        [one.unwrap().status(), other.unwrap().status()]
    }

    pub(crate) fn get(&self, index: usize, path: &str) -> (StatusCode, HeaderMap, Value) {
        self.ask(index, Method::GET, path, None)
    }

    /// All jobs of the collection, as a region shows them; none of it may be old.
    pub(crate) fn list(&self, index: usize) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/c/jobs?{cursor}");
            let (status, headers, list) = self.request(index, Method::GET, &path, None);
            assert_eq!(status, StatusCode::OK, "{list}");
            assert!(!headers.contains_key("x-steadfast-stale"));
            all.extend(list["value"].as_array().unwrap().iter().cloned());
            let Some(next) = list["nextLink"].as_str() else {
                return all;
            };
            let (_, behind) = next.split_once("&cursor=").unwrap();
            let behind = behind.split('&').next().unwrap_or_default();
            cursor = format!("cursor={behind}&");
        }
    }

    /// Makes jobs through a region, one after the other, until it answers no more; its
    /// names are those of all that were acknowledged.
    pub(crate) fn make_until_lost(&self, index: usize) -> JoinHandle<Vec<String>> {
        let action = self.action("/near");
        let start = jobs::in_seconds(3600);
        let job = json!({"properties": {"startTime": start, "action": action}});
        let request = self.prepared(index, Method::PUT, "/c/jobs/NAME", Some(&job));
        let request = request.timeout(PATIENCE).build().unwrap();
        let client = self.server(index).client.clone();
        self.runtime.spawn(async move {
            let mut made = Vec::new();
            for number in 0.. {
                let name = format!("near{number}");
                let mut request = request.try_clone().unwrap();
                let path = request.url().path().replace("NAME", &name);
                request.url_mut().set_path(&path);
                match client.execute(request).await {
                    Ok(answer) if answer.status() == StatusCode::CREATED => made.push(name),
                    _ => break,
                }
            }
            made
        })
    }

    /// What came of that.
    pub(crate) fn made(&self, making: JoinHandle<Vec<String>>) -> Vec<String> {
        self.runtime.block_on(making).unwrap()
    }

    /// Makes the collection, at home.
    pub(crate) fn collection(&self, index: usize, _: &str) {
        let body = json!({"location": "eastus", "properties": {}});
        let (status, _, answer) = self.ask(index, Method::PUT, "", Some(&body));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(answer["location"], "East US");
        for elsewhere in ["Atlantis", "North Europe"] {
            let body = json!({"location": elsewhere, "properties": {}});
            let (status, _, answer) = self.ask(index, Method::PUT, "", Some(&body));
            assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
            assert_eq!(answer["error"]["target"], "location");
        }
    }

    /// Makes a job, through this region.
    #[expect(clippy::needless_pass_by_value, reason = "it reads better")]
    pub(crate) fn put(&self, index: usize, name: &str, job: Value) {
        let path = format!("/jobs/{name}");
        let (status, _, answer) = self.ask(index, Method::PUT, &path, Some(&job));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }

    pub(crate) fn try_put(&self, index: usize, name: &str, job: &Value) -> StatusCode {
        let path = format!("/jobs/{name}");
        self.ask(index, Method::PUT, &path, Some(job)).0
    }

    /// What is said to a change that is refused.
    pub(crate) fn refused(&self, index: usize, name: &str, job: &Value) -> String {
        let path = format!("/jobs/{name}");
        let (status, _, answer) = self.ask(index, Method::PUT, &path, Some(job));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        answer.to_string()
    }

    pub(crate) fn metrics(&self, index: usize) -> String {
        let (status, text) = self.server(index).get("/metrics");
        assert_eq!(status, StatusCode::OK);
        text.as_str().unwrap().to_owned()
    }

    /// Kills a region; its folder goes with it.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut server = self.servers[index].take().unwrap();
        server.process.kill().unwrap();
    }

    /// Starts a killed region again, with nothing in its folder.
    pub(crate) fn restart_empty(&mut self, index: usize) {
        self.launch(index);
    }

    pub(crate) fn signal(&self, index: usize, signal: Signal) {
        self.server(index).signal(signal);
    }

    /// Runs a command against a region; answers what it said.
    pub(crate) fn command(&self, index: usize, arguments: &[&str]) -> String {
        let (code, text) = self.try_command(index, arguments);
        assert_eq!(code, 0, "{text}");
        text
    }

    /// Runs a command against a region; answers its exit code and what it said.
    pub(crate) fn try_command(&self, index: usize, arguments: &[&str]) -> (i32, String) {
        self.begin_command(index, arguments).join().unwrap()
    }

    /// Begins a command against a region, which others may have to wait for.
    pub(crate) fn begin_command(&self, index: usize, arguments: &[&str]) -> Saying {
        let server = self.server(index);
        let mut command = running::steadfast(server.folder.path());
        command.env("STEADFAST_URL", &server.url);
        command.args(arguments);
        let thread = std::thread::Builder::new().name("command".into());
        let said = move || {
            let (code, text, errors) = running::said(&running::finish(command));
            (code, text + &errors)
        };
        thread.spawn(said).unwrap()
    }

    /// No bytes go between the regions.
    pub(crate) fn cut_between(&self, is_cut: bool) {
        for proxy in &self.across {
            set(proxy, is_cut);
        }
    }

    /// No bytes go to or from a region.
    pub(crate) fn cut_off(&self, index: usize, is_cut: bool) {
        self.cut_between(is_cut);
        set(&self.up[index], is_cut);
    }

    /// All bytes that the witness has stored.
    pub(crate) fn witness_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        collect(&self.witness.data(), &mut bytes);
        bytes
    }

    /// Every call, but those of the other home's job.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        let mut heard = self.target.heard();
        heard.retain(|one| one.path != OTHERS);
        heard
    }

    /// A collection and a job that have their home in the other region.
    pub(crate) fn fill_other(&self, index: usize) {
        let body = json!({"location": NAMES[1 - self.home()], "properties": {}});
        let (status, _, answer) = self.request(index, Method::PUT, "/o", Some(&body));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let job = json!({"properties": {
            "action": self.action(OTHERS),
            "recurrence": {"frequency": "Second", "interval": 1},
        }});
        let (status, _, answer) = self.request(index, Method::PUT, "/o/jobs/tick", Some(&job));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }

    /// The calls of that job.
    pub(crate) fn heard_other(&self) -> Vec<Heard> {
        let mut heard = self.target.heard();
        heard.retain(|one| one.path == OTHERS);
        heard
    }

    /// Waits for a delivery that fits.
    pub(crate) fn until_heard(&self, what: &str, fits: impl Fn(&Heard) -> bool) -> Heard {
        until(what, || self.heard().into_iter().find(|one| fits(one)))
    }

    /// Waits for deliveries of a region.
    pub(crate) fn heard_from(&self, index: usize, paths: &[&str]) {
        for path in paths {
            let what = format!("{path} from {}", NAMES[index]);
            self.until_heard(&what, |one| one.path == *path && one.region == NAMES[index]);
        }
    }

    pub(crate) fn until_count(&self, count: usize) {
        until("more deliveries", || {
            (self.heard().len() >= count).then_some(())
        });
    }

    /// When the first delivery of a region came.
    pub(crate) fn first_from(&self, index: usize) -> Instant {
        self.first_from_since(index, 0)
    }

    pub(crate) fn first_from_since(&self, index: usize, since: usize) -> Instant {
        until(&format!("a delivery from {}", NAMES[index]), || {
            let heard = self.heard();
            let mut later = heard.into_iter().skip(since);
            later
                .find(|one| one.region == NAMES[index])
                .map(|one| one.at)
        })
    }

    /// Calls that wait at `/patient` get their answer.
    pub(crate) fn answer_the_patient(&self) {
        self.target.answer_the_patient();
    }

    /// Waits until a region begins no more calls, because it is to give the jobs up.
    pub(crate) fn resting(&self, index: usize) {
        self.server(index).logged("region.resting");
    }

    /// What a region has in its history of an attempt: how often it came to something.
    pub(crate) fn records(&self, index: usize, of: &Heard) -> Vec<Value> {
        let own = of.path.trim_start_matches("/held").replace('/', "");
        let (status, _, history) = self.get(index, &format!("/jobs/{own}/history"));
        assert_eq!(status, StatusCode::OK, "{history}");
        let all = history["value"].as_array().unwrap().iter();
        let all = all.map(|item| item["properties"].clone());
        let is_of = |item: &Value| {
            let expected = item["expectedExecutionTime"].as_str().unwrap();
            jobs::seconds(expected) == of.expected
                && item["retryCount"] == of.attempt_number()
                && item["status"] != "Postponed"
        };
        all.filter(is_of).collect()
    }

    /// Every job that runs again and again has run for each of its times.
    pub(crate) fn no_gaps(&self, heard: &[Heard], seconds: i64) {
        let paths: std::collections::BTreeSet<_> = heard
            .iter()
            .filter(|one| one.path.starts_with("/every/"))
            .map(|one| one.path.clone())
            .collect();
        assert!(!paths.is_empty());
        for path in paths {
            let own = heard.iter().filter(|one| one.path == path);
            let times: std::collections::BTreeSet<_> = own.map(|one| one.expected).collect();
            let times: Vec<_> = times.into_iter().collect();
            for two in times.windows(2) {
                assert_eq!(two[1] - two[0], seconds, "{path}: {times:?}");
            }
            // Nor has it stopped: others are one occurrence ahead at most.
            let last = heard.iter().filter(|one| one.path.starts_with("/every/"));
            let last = last.map(|one| one.expected).max();
            let behind = last.unwrap_or(0) - times.last().copied().unwrap_or(0);
            assert!(behind <= 2 * seconds, "{path} has stopped: {times:?}");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let all = self.servers.iter().flatten().chain([&self.witness]);
            for server in all {
                let log = server.log();
                let lines: Vec<_> = log.lines().collect();
                let from = lines.len().saturating_sub(60);
                println!("--- {}\n{}", server.url, lines[from..].join("\n"));
            }
        }
        for server in self.servers.iter().flatten() {
            server.signal(Signal::CONT);
        }
        // Proxies end with the runtime.
        let _inside = self.runtime.enter();
    }
}

fn set(proxy: &FaultProxy, is_cut: bool) {
    // First, so that nothing arrives that was held.
    if !is_cut {
        proxy.cut();
    }
    proxy.freeze(is_cut);
}

fn collect(folder: &Path, bytes: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, bytes)
        } else {
            // Some files go while they are looked at.
            bytes.extend(std::fs::read(&path).unwrap_or_default())
        }
    }
}

/// How long a step may take.
pub(crate) const PATIENCE: Duration = running::PATIENCE;
