//! A worker thread that does not come back is noticed.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast_core::task::name_task;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const PATIENCE: Duration = Duration::from_secs(60);

/// The fields of one line of the log.
#[derive(Default)]
struct Line(BTreeMap<&'static str, String>);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// Gives every line of the log to the test.
struct Ears(parking_lot::Mutex<Sender<Line>>);

impl Subscriber for Ears {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        // The test may have ended.
        let _ = self.0.lock().send(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Waits for a line of the log.
fn heard(lines: &Receiver<Line>, event: &str) -> Line {
    loop {
        let line = lines.recv_timeout(PATIENCE).unwrap();
        if line.0.get("event").is_some_and(|own| own == event) {
            return line;
        }
    }
}

fn config(folder: &Path) -> Config {
    let mut layers = Layers::new();
    for port in ["http", "events.amqp", "durable", "events.blob", "realtime"] {
        let key = if port.contains('.') {
            format!("{port}_port=0")
        } else {
            format!("{port}.port=0")
        };
        layers = layers.flag(&key).unwrap();
    }
    let layers = layers.flag(&format!("data={}", folder.display()));
    Config::new(&layers.unwrap()).unwrap()
}

#[test]
fn a_worker_that_one_task_keeps_is_logged_with_the_task_and_the_threads_and_counted() {
    let (ears, lines) = channel();
    let ears = Ears(parking_lot::Mutex::new(ears));
    tracing::subscriber::set_global_default(ears).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let starting = Node::builder().config(config(folder.path())).serve();
    let node = runtime.block_on(starting.start()).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let spinning = async move {
        while !flag.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let line = line!() + 1;
    runtime.spawn(name_task(spinning));
    let stuck = heard(&lines, "runtime.worker_stuck").0;
    assert_eq!(stuck["workers"], "2");
    assert!(
        stuck["kept_ms"].parse::<u64>().unwrap() >= 5000,
        "{stuck:?}"
    );
    // On a busy machine another task may be named as well: one whose thread was not running.
    let place = format!("tests/node_watchdog.rs:{line} on tokio-");
    assert!(stuck["stuck"].contains(&place), "{stuck:?}");
    let mut threads = stuck["threads"].split("; ");
    let is_stuck = |thread: &str| thread.starts_with("tokio-") && thread.contains(" R ");
    assert!(threads.any(is_stuck), "{stuck:?}");
    is_over.store(true, Ordering::Relaxed);
    let back = heard(&lines, "runtime.worker_back").0;
    assert_eq!(back["worker"], stuck["worker"]);
    let metrics = runtime.block_on(async {
        let port = node.http_port().unwrap();
        let url = format!("http://127.0.0.1:{port}/metrics");
        reqwest::get(url).await.unwrap().text().await.unwrap()
    });
    let counted = |name: &str| {
        let own = metrics.lines().find_map(|line| line.strip_prefix(name));
        own.unwrap().trim().parse::<f64>().unwrap()
    };
    // A machine that stands still for a while may add to it.
    assert!(
        counted("steadfast_worker_stalls_total ") >= 1.0,
        "{metrics}"
    );
    assert_eq!(counted("steadfast_stuck_workers "), 0.0);
}
