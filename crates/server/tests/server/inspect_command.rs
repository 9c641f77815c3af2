//! `steadfast store inspect`, as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use steadfast::Record;
use steadfast::collections::schema::Unknown;
use steadfast::collections::{ConcurrentQueue, Dictionary, Log, Queue, Replica};
use steadfast::id::{Owner, Partition};
use steadfast::storage::local::{self, LocalEngine};
use steadfast::storage::{Options, Store};

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    warmth: Option<f64>,
    unknown: Unknown,
}

fn house(name: &str, warmth: Option<f64>) -> House {
    House {
        name: name.to_owned(),
        warmth,
        unknown: Unknown::NONE,
    }
}

/// One test at a time: a child that one test starts holds, until it is itself, what
/// all others have open, and so their locked folders.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a folder, does something with its partitions 0 and 1, closes it.
fn with<T>(data: &Path, work: impl AsyncFnOnce([Replica; 2]) -> T) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let engine = LocalEngine::open(data, &local::Options::default()).unwrap();
        let owner = Owner {
            node: 1,
            incarnation: 1,
        };
        let store = Store::start(Arc::new(engine), Options::new(owner));
        let mut replicas = Vec::new();
        for index in 0..2 {
            let ledger = store.acquire(Partition::new(0, index)).await.unwrap();
            let options = steadfast::collections::Options::default();
            replicas.push(Replica::primary(ledger, options).await.unwrap());
        }
        let done = work([replicas.remove(0), replicas.remove(0)]).await;
        store.close().await;
        done
    })
}

/// Every shape once, and houses in two partitions.
fn write(data: &Path) {
    with(data, async |[first, second]| {
        let state = first.state();
        let houses: Dictionary<u64, House> = state.get_or_add("houses").await.unwrap();
        let pairs: Dictionary<(String, i32), String> = state.get_or_add("pairs").await.unwrap();
        let orders: Queue<String> = state.get_or_add("orders").await.unwrap();
        let mail: ConcurrentQueue<String> = state.get_or_add("mail").await.unwrap();
        let audit: Log<House> = state.get_or_add("audit").await.unwrap();
        let slot = first.scope("shop#3");
        let slot: Dictionary<u64, u64> = slot.get_or_add("stock").await.unwrap();
        let mut tx = first.begin();
        houses
            .set(&mut tx, 7, house("seven", Some(21.5)))
            .await
            .unwrap();
        houses.set(&mut tx, 8, house("eight", None)).await.unwrap();
        let pair = ("left".to_owned(), -1);
        pairs.set(&mut tx, pair, "right".to_owned()).await.unwrap();
        for order in ["sold", "apples", "pears"] {
            orders.enqueue(&mut tx, order.to_owned()).await.unwrap();
        }
        mail.enqueue(&mut tx, "letter").await.unwrap();
        for warmth in [1.5, 2.5] {
            audit
                .append(&mut tx, &house("nine", Some(warmth)))
                .await
                .unwrap();
        }
        slot.set(&mut tx, 1, 12).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = first.begin();
        orders.try_dequeue(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();

        let houses = second.state().get_or_add("houses").await;
        let houses: Dictionary<u64, House> = houses.unwrap();
        let mut tx = second.begin();
        houses
            .set(&mut tx, 9, house("nine", Some(18.0)))
            .await
            .unwrap();
        tx.commit().await.unwrap();
    });
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.arg("inspect").args(arguments).current_dir(folder);
    command.output().unwrap()
}

/// What the command prints; it says this on the side.
fn said(folder: &Path, arguments: &[&str], aside: &str) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    assert_eq!(errors, aside, "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn seen(folder: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["--data", "data", "-o", "json"], arguments].concat();
    serde_json::from_str(&said(folder, &arguments, "")).unwrap()
}

/// The command fails with this exit code and says this.
fn fail(folder: &Path, arguments: &[&str], status: i32, text: &str) {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert_eq!(code, Some(status), "{arguments:?}: {errors}");
    assert!(errors.contains(text), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
}

#[test]
fn the_guide_shows_what_is_printed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("data"));
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/inspect.md");
    let guide = fs::read_to_string(guide).unwrap();
    let mut parts = guide.split("```");
    parts.next();
    let mut commands = 0;
    while let (Some(command), Some(_), Some(expected), Some(_)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    {
        let words = command
            .strip_prefix("sh\nsteadfast store inspect ")
            .unwrap();
        let words: Vec<_> = words.split_whitespace().collect();
        let found = said(folder.path(), &words, "");
        assert_eq!(
            Some(found.as_str()),
            expected.strip_prefix("text\n"),
            "{words:?}"
        );
        commands += 1;
    }
    assert_eq!(commands, 4);
}

#[test]
fn every_shape_is_shown_as_json() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("data"));
    let seen = |arguments: &[&str]| seen(folder.path(), arguments);
    let entry = |key: Value, value: Value| json!({"partition": "0/0", "scope": "", "key": key, "value": value});
    let entries = |entries: Vec<Value>| json!({"entries": entries, "has_more": false});

    let seven = entry(json!(7), json!({"0": "seven", "1": 21.5}));
    let eight = entry(json!(8), json!({"0": "eight"}));
    let only_first = seen(&["houses", "--partition", "0"]);
    assert_eq!(only_first, entries(vec![seven.clone(), eight]));
    assert_eq!(seen(&["houses"])["entries"][2]["partition"], "0/1");
    assert_eq!(
        seen(&["urn:houses", "--key", "7"]),
        entries(vec![seven.clone()])
    );
    let limited = seen(&["houses", "--limit", "1"]);
    assert_eq!(limited, json!({"entries": [seven], "has_more": true}));

    let pair = entries(vec![entry(json!(["left", -1]), json!("right"))]);
    assert_eq!(seen(&["pairs"]), pair);
    assert_eq!(seen(&["pairs", "--key", r#"["left",-1]"#]), pair);

    // The first order was taken; the ends of the queue are no items.
    let (apples, pears) = (
        entry(json!(1), json!("apples")),
        entry(json!(2), json!("pears")),
    );
    assert_eq!(seen(&["orders"]), entries(vec![apples, pears.clone()]));
    assert_eq!(seen(&["orders", "--key", "2"]), entries(vec![pears]));

    let mail = seen(&["mail"]);
    assert_eq!(mail["entries"][0]["value"], "letter");
    let place = mail["entries"][0]["key"].to_string();
    assert_eq!(seen(&["mail", "--key", &place]), mail);

    let audit = seen(&["audit"]);
    let events = audit["entries"].as_array().unwrap();
    let numbers: Vec<_> = events.iter().map(|event| event["key"].clone()).collect();
    assert_eq!(numbers, [json!(0), json!(1)]);
    assert_eq!(events[1]["value"], json!({"0": "nine", "1": 2.5}));
    assert!(events[1]["time_ms"].as_i64().unwrap() > 0);
    assert_eq!(
        seen(&["audit", "--key", "1"])["entries"],
        json!([events[1]])
    );

    assert_eq!(seen(&["stock"])["entries"][0]["scope"], "shop#3");
}

#[test]
fn looking_changes_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    write(&data);
    let before = ["houses", "orders", "mail", "audit"].map(|name| seen(folder.path(), &[name]));
    let partitions = seen(folder.path(), &[]);
    let after = ["houses", "orders", "mail", "audit"].map(|name| seen(folder.path(), &[name]));
    assert_eq!(before, after);
    assert_eq!(seen(folder.path(), &[]), partitions);
    // And the owner of the folder continues to use it.
    with(&data, async |[first, _]| {
        let orders: Queue<String> = first.state().get_or_add("orders").await.unwrap();
        let mut tx = first.begin();
        assert_eq!(orders.count(&mut tx).await.unwrap(), 2);
        let next = orders.try_dequeue(&mut tx).await.unwrap().unwrap();
        assert_eq!(*next, "apples");
        tx.commit().await.unwrap();
    });
    assert_eq!(
        seen(folder.path(), &["orders"])["entries"][0]["value"],
        "pears"
    );
}

#[test]
fn what_is_not_there_is_said() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = root.join("data");
    write(&data);
    let asked = |more: &[&'static str]| [&["--data", "data"], more].concat();
    fail(root, &asked(&["barns"]), 3, "there is no collection barns");
    fail(root, &asked(&["houses", "--key", "70"]), 3, "has no key 70");
    fail(root, &asked(&["audit", "--key", "2"]), 3, "has no key 2");
    fail(root, &asked(&["orders", "--key", "0"]), 3, "has no key 0");
    fail(root, &asked(&["--partition", "5"]), 3, "no partition 0/5");
    fail(
        root,
        &asked(&["houses", "--key", "seven"]),
        2,
        "needs its quotes",
    );
    fail(root, &asked(&["--key", "7"]), 2, "required");
    fail(root, &["--data", "elsewhere"], 1, "find the data folder");
    assert!(!root.join("elsewhere").exists(), "looking made a folder");
    fs::create_dir(root.join("empty")).unwrap();
    let expected = "empty is not a data folder of Steadfast";
    fail(root, &["--data", "empty"], 1, expected);
    let left = fs::read_dir(root.join("empty")).unwrap().count();
    assert_eq!(left, 0, "looking left something behind");
    with(&data, async |_| fail(root, &asked(&[]), 1, "STF-2001"));

    let aside = "steadfast: there are more; raise --limit to see them\n";
    let table = said(root, &asked(&["houses", "--limit", "2"]), aside);
    assert_eq!(table.lines().count(), 3);
}
