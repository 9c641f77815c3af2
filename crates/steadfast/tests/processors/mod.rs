//! Processors of real clients, and what they print.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast::events::{EventDataBatch, EventHubDefinition};
use steadfast_harness::clients as programs;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clients::{ACCOUNT, Encryption, PATIENCE, Stage};

const HUB: &str = "houses";
/// The container of ownerships and checkpoints.
pub(crate) const BOX: &str = "checkpoints";
/// How often processors look after their partitions, in seconds.
pub(crate) const INTERVAL: u64 = 1;
/// How often those of Rust do.
pub(crate) const RUST_INTERVAL: u64 = 2;
/// Intervals after which an ownership that is not renewed is free.
const EXPIRY: u64 = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// azure-eventhub 5.15.0 with azure-eventhub-checkpointstoreblob 1.2.0.
    Sync,
    /// The same with azure-eventhub-checkpointstoreblob-aio 1.2.0.
    Asyncio,
    /// @azure/event-hubs 6.0.4 with @azure/eventhubs-checkpointstore-blob 2.0.0.
    Node,
    /// azure-messaging-eventhubs 5.21.3 with azure-messaging-eventhubs-checkpointstore-blob
    /// 1.21.5, whose handler takes batches.
    Java,
    /// The same with a handler of single events.
    JavaAlone,
    /// azeventhubs 2.0.2 with its store of checkpoints.
    Go,
    /// azure_messaging_eventhubs 0.15.0 with azure_messaging_eventhubs_checkpointstore_blob
    /// 0.9.0.
    Rust,
}

impl Kind {
    fn command(self) -> Command {
        match self {
            Self::Node => programs::javascript("event-hubs/processor.mjs"),
            Self::Java | Self::JavaAlone => {
                programs::java("event-hubs", "steadfast.events.Processor")
            }
            Self::Go => programs::go("processor"),
            Self::Rust => programs::rust("event-hub-processor"),
            Self::Sync | Self::Asyncio => programs::python("eventhub", "python/processor.py"),
        }
    }

    fn interval(self) -> u64 {
        match self {
            Self::Rust => RUST_INTERVAL,
            _ => INTERVAL,
        }
    }
}

/// How far the handling of one partition is.
struct Progress {
    /// The last event that a handler has got for the first time, and when.
    highest: i64,
    at: Instant,
    /// The longest time without a new event, by the processors before and after it.
    longest: (Duration, usize, usize),
    handler: usize,
}

/// What the processors of one test have printed.
struct Told {
    began: Instant,
    lines: Mutex<Vec<(usize, Value)>>,
    progress: Mutex<BTreeMap<String, Progress>>,
    more: Notify,
}

impl Told {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            lines: Mutex::default(),
            progress: Mutex::default(),
            more: Notify::new(),
        }
    }

    fn note(&self, number: usize, mut line: Value) {
        if let Some(facts) = line.as_object_mut() {
            facts.insert("at".into(), json!(self.began.elapsed().as_secs_f32()));
        }
        if let (Some(partition), Some(sequence)) =
            (line["partition"].as_str(), line["sequence"].as_i64())
        {
            self.advance(number, partition, sequence);
        }
        self.lines.lock().push((number, line));
        self.more.notify_waiters();
    }

    fn advance(&self, number: usize, partition: &str, sequence: i64) {
        let now = Instant::now();
        let mut progress = self.progress.lock();
        let own = progress
            .entry(partition.to_owned())
            .or_insert_with(|| Progress {
                highest: -1,
                at: now,
                longest: (Duration::ZERO, number, number),
                handler: number,
            });
        if sequence > own.highest {
            let pause = now.duration_since(own.at);
            own.longest = own.longest.max((pause, own.handler, number));
            (own.highest, own.at, own.handler) = (sequence, now, number);
        }
    }
}

/// A stage, and the processors that came to it.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    /// The certificate that encrypts everything.
    certificate: Option<PathBuf>,
    partitions: u32,
    told: Arc<Told>,
    processors: Vec<Processor>,
    sender: Option<Sender>,
    pub(crate) sent: BTreeSet<String>,
}

struct Processor {
    child: Child,
    /// It leaves when this is closed.
    input: Option<ChildStdin>,
}

/// A process that sends all the time.
struct Sender {
    child: Child,
    /// It ends when this is closed.
    input: ChildStdin,
    acknowledged: JoinHandle<BTreeSet<String>>,
}

impl Scene {
    pub(crate) async fn start(partitions: u32) -> Self {
        Self::start_with(partitions, None).await
    }

    /// The same where everything is encrypted.
    pub(crate) async fn start_encrypted(partitions: u32, encryption: &Encryption) -> Self {
        Self::start_with(partitions, Some(encryption)).await
    }

    async fn start_with(partitions: u32, encryption: Option<&Encryption>) -> Self {
        let settings = encryption.map(Encryption::settings);
        let settings: Vec<_> = settings.iter().flatten().map(String::as_str).collect();
        let stage = Stage::start(&settings, |builder| builder).await;
        let definition = EventHubDefinition::new(HUB, partitions);
        stage.node().event_hubs().create(definition).await.unwrap();
        let container = format!("{ACCOUNT}/{BOX}");
        let blobs = stage.node().blobs();
        blobs
            .create_container(&container, Vec::new())
            .await
            .unwrap();
        Self {
            stage,
            certificate: encryption.map(Encryption::certificate),
            partitions,
            told: Arc::new(Told::new()),
            processors: Vec::new(),
            sender: None,
            sent: BTreeSet::new(),
        }
    }

    /// What the processors have printed, by their numbers.
    pub(crate) fn lines(&self) -> Vec<(usize, Value)> {
        self.told.lines.lock().clone()
    }

    fn spawn(&self, command: Command, options: &Value) -> Child {
        let mut command = tokio::process::Command::from(command);
        let told = match &self.certificate {
            Some(certificate) => {
                command.env("SSL_CERT_FILE", certificate);
                self.stage.told_encrypted(certificate)
            }
            None => self.stage.told(),
        };
        command
            .arg(told.to_string())
            .arg(options.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.spawn().expect("the client is installed")
    }

    /// Lets one more processor join.
    pub(crate) fn join(&mut self, kind: Kind) {
        self.join_with(kind, kind.interval() * EXPIRY);
    }

    /// The same with ownerships that expire after so many seconds.
    pub(crate) fn join_with(&mut self, kind: Kind, expiry: u64) {
        let options = json!({
            "hub": HUB, "group": "$Default", "container": BOX,
            "interval": kind.interval(), "expiry": expiry,
            "alone": matches!(kind, Kind::JavaAlone),
            "kind": if matches!(kind, Kind::Sync) { "sync" } else { "asyncio" },
        });
        let mut child = self.spawn(kind.command(), &options);
        let (number, told) = (self.processors.len(), Arc::clone(&self.told));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                told.note(number, line);
            }
        });
        let input = child.stdin.take();
        self.processors.push(Processor { child, input });
    }

    pub(crate) async fn kill(&mut self, number: usize) {
        self.processors[number].child.kill().await.unwrap();
    }

    pub(crate) async fn leave(&mut self, number: usize) {
        let processor = &mut self.processors[number];
        drop(processor.input.take());
        let left = tokio::time::timeout(PATIENCE, processor.child.wait()).await;
        assert!(
            left.expect("it leaves").unwrap().success(),
            "{:?}",
            self.told.lines.lock()
        );
    }

    /// Publishes so many events to every partition.
    pub(crate) async fn send(&mut self, name: &str, count: usize) {
        let hubs = self.stage.node().event_hubs();
        for partition in 0..self.partitions {
            let sender = hubs.sender(HUB, Some(partition)).await.unwrap();
            for number in 0..count {
                let text = format!("{name} {partition} {number}");
                let mut batch = EventDataBatch::new();
                let mut event = Vec::new();
                steadfast_client::amqp::write_event(&mut event, text.as_bytes());
                batch.push(&event).unwrap();
                sender.send(batch).await.unwrap();
                self.sent.insert(text);
            }
        }
    }

    /// Starts a process that sends an event a second to every partition.
    pub(crate) fn start_sender(&mut self) {
        let options = json!({"hub": HUB, "partitions": self.partitions});
        let mut child = self.spawn(programs::go("sender"), &options);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = tokio::spawn(async move {
            let mut all = BTreeSet::new();
            while let Ok(Some(line)) = lines.next_line().await {
                let line: Value = serde_json::from_str(&line).expect("a line of the sender");
                all.insert(line["sent"].as_str().expect("an event").to_owned());
            }
            all
        });
        let input = child.stdin.take().unwrap();
        self.sender = Some(Sender {
            child,
            input,
            acknowledged,
        });
    }

    /// Ends the sender; what was acknowledged to it is sent.
    pub(crate) async fn stop_sender(&mut self) {
        let mut sender = self.sender.take().expect("it was started");
        drop(sender.input);
        let ended = tokio::time::timeout(PATIENCE, sender.child.wait()).await;
        assert!(ended.expect("it ends").unwrap().success());
        self.sent.extend(sender.acknowledged.await.unwrap());
    }

    /// Waits until every event has come to a processor.
    pub(crate) async fn all_came(&self) {
        self.all("got").await;
    }

    /// Waits until every event is behind a checkpoint.
    pub(crate) async fn all_kept(&self) {
        self.all("kept").await;
    }

    async fn all(&self, what: &str) {
        let missing = || {
            let lines = self.told.lines.lock();
            let got = lines.iter().filter_map(|(_, line)| line[what].as_str());
            let got: BTreeSet<_> = got.collect();
            let left = self.sent.iter().filter(|text| !got.contains(text.as_str()));
            left.cloned().collect::<Vec<_>>()
        };
        let came = self.until(async || missing().is_empty());
        assert!(came.await, "{:?} of {:?}", missing(), self.last_lines());
    }

    async fn until(&self, is_so: impl AsyncFn() -> bool) -> bool {
        let waiting = async {
            loop {
                let more = self.told.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if is_so().await {
                    return;
                }
                more.await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.is_ok()
    }

    fn last_lines(&self) -> Vec<(usize, Value)> {
        let lines = self.told.lines.lock();
        lines[lines.len().saturating_sub(200)..].to_vec()
    }

    /// How many partitions each owner has, by the blobs.
    async fn shares(&self) -> BTreeMap<String, usize> {
        let container = format!("{ACCOUNT}/{BOX}");
        let page = self
            .stage
            .node()
            .blobs()
            .list(&container, "", "", 1000)
            .await
            .unwrap();
        let mut shares = BTreeMap::new();
        for blob in page
            .blobs
            .iter()
            .filter(|blob| blob.name.contains("/ownership/"))
        {
            let owner = blob.metadata.iter().find(|(name, _)| name == "ownerid");
            let owner = owner.map(|(_, owner)| owner.clone()).unwrap_or_default();
            if !owner.is_empty() {
                *shares.entry(owner).or_default() += 1;
            }
        }
        shares
    }

    /// Waits until the partitions are shared like this. Nothing tells of a blob that is
    /// written, so they are listed again and again.
    pub(crate) async fn shared(&self, expected: &[usize]) {
        let waiting = async {
            loop {
                let mut found: Vec<_> = self.shares().await.into_values().collect();
                found.sort_unstable();
                if found == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let (shares, lines) = (self.shares().await, self.told.lines.lock());
            panic!("{expected:?} was expected, not {shares:?}: {lines:?}");
        }
    }

    /// Waits until so many processors own all partitions, each as many as the others or
    /// one more. While a sender runs, there is a line at every moment to look again at.
    pub(crate) async fn balanced(&self, owners: usize) {
        let is_balanced = async || {
            let shares: Vec<_> = self.shares().await.into_values().collect();
            let (least, most) = (shares.iter().min(), shares.iter().max());
            shares.len() == owners
                && shares.iter().sum::<usize>() == self.partitions as usize
                && most
                    .zip(least)
                    .is_some_and(|(most, least)| most - least <= 1)
        };
        let balanced = self.until(is_balanced).await;
        assert!(
            balanced,
            "{owners} owners were expected, not {:?}: {:?}",
            self.shares().await,
            self.last_lines()
        );
    }

    /// Measures from now on how long partitions have no new event.
    pub(crate) fn measure_pauses(&self) {
        for own in self.told.progress.lock().values_mut() {
            own.longest = (Duration::ZERO, own.handler, own.handler);
        }
    }

    /// What processors have printed about a partition, and about themselves.
    pub(crate) fn lines_of(&self, partition: &str) -> Vec<(usize, Value)> {
        let is_of = |line: &Value| {
            let named = ["partition", "began", "ended"].map(|name| line[name].as_str());
            let mut named = named.into_iter().flatten();
            line["kept"].is_null() && named.all(|other| other == partition)
        };
        let lines = self.told.lines.lock();
        lines
            .iter()
            .filter(|(_, line)| is_of(line))
            .cloned()
            .collect()
    }

    /// The longest time in which a partition had no new event although there were some,
    /// with the partition and the numbers of the processors before and after it.
    pub(crate) fn longest_pause(&self) -> (Duration, usize, usize, String) {
        let now = Instant::now();
        let progress = self.told.progress.lock();
        assert_eq!(progress.len(), self.partitions as usize);
        let pauses = progress.iter().map(|(partition, own)| {
            let unfinished = (now.duration_since(own.at), own.handler, own.handler);
            let (pause, before, after) = own.longest.max(unfinished);
            (pause, before, after, partition.clone())
        });
        pauses.max().expect("a partition")
    }

    /// No partition was read by two processors at once.
    pub(crate) fn check(&self) {
        for node in &self.stage.nodes {
            assert_eq!(node.event_hubs().reader_counts().overlaps, 0);
        }
    }

    pub(crate) async fn end(mut self) {
        for number in 0..self.processors.len() {
            if self.processors[number].input.is_some() {
                let _ = self.processors[number].child.kill().await;
            }
        }
        self.stage.stop().await;
    }
}
