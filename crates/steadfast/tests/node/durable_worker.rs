//! A worker and a client in Rust, over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::Node;
use steadfast::durable::{
    ActivityContext, Context, EntityListQuery, EntityOperation, ErrorKind, EventKind,
    FailureDetails, Functions, InstanceListQuery, InstanceStatus, NewInstance, RetryOptions, Task,
    TaskHubClient, TaskHubWorker, entity,
};
use steadfast_harness::{Process, own_test};

use crate::task_hub::{PATIENCE, node, node_with_file, url};

#[derive(Default, Serialize, Deserialize)]
struct Account {
    balance: i64,
}

#[entity(crate = "steadfast::durable")]
impl Account {
    fn add(&mut self, amount: i64) -> Result<i64, FailureDetails> {
        if self.balance + amount < 0 {
            return Err(FailureDetails::new("Broke", "not enough money"));
        }
        self.balance += amount;
        Ok(self.balance)
    }

    fn balance(&self) -> i64 {
        self.balance
    }
}

async fn transfer(
    cx: Context,
    (from, to, amount): (String, String, i64),
) -> Result<i64, FailureDetails> {
    let (from, to) = (Account::at(&from)?, Account::at(&to)?);
    let section = cx.lock([from.id(), to.id()]).await?;
    from.add(&cx, -amount).await?;
    let there = to.add(&cx, amount).await?;
    drop(section);
    Ok(there)
}

/// Everything that an orchestration can wait for, one after the other.
async fn tour(cx: Context, name: String) -> Result<String, FailureDetails> {
    let before = cx.now();
    let greeting: String = cx.activity("greet", &name).await?;
    let patient = RetryOptions::fixed(3, Duration::from_millis(20));
    let third: u64 = cx
        .activity("third_time", &cx.instance())
        .retry(patient)
        .await?;
    cx.sleep(Duration::from_millis(50)).await;
    assert!(cx.now() > before);
    cx.set_status("waits")?;
    let word: String = cx.event("word").await?;
    let sum: i64 = cx.child("transfer", &("tour-a", "tour-b", 5)).await?;
    Ok(format!(
        "{greeting} {third} {word} {sum} {}",
        cx.guid().len()
    ))
}

async fn countdown(cx: Context, left: u64) -> Result<String, FailureDetails> {
    match left {
        0 => Ok("done".into()),
        left => cx.continue_as_new(&(left - 1)),
    }
}

/// Holds much, and then waits.
async fn heavy(cx: Context, count: usize) -> Result<usize, FailureDetails> {
    let text = "x".repeat(300_000);
    let mut calls = Vec::new();
    for _ in 0..count {
        calls.push(cx.activity::<_, String>("echo", &text));
    }
    let mut bytes = 0;
    for done in futures(calls).await {
        bytes += done?.len();
    }
    cx.event::<()>("go").await?;
    Ok(bytes)
}

/// All at once, in order.
async fn futures<T>(calls: Vec<steadfast::durable::TaskFuture<T>>) -> Vec<Result<T, FailureDetails>>
where
    T: serde::de::DeserializeOwned + 'static,
{
    let mut calls: Vec<_> = calls
        .into_iter()
        .map(|call| (Box::pin(call), None))
        .collect();
    std::future::poll_fn(|poller| {
        for (call, done) in &mut calls {
            if done.is_none()
                && let std::task::Poll::Ready(result) = call.as_mut().poll(poller)
            {
                *done = Some(result);
            }
        }
        if calls.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, done)| done).collect()
}

fn functions(functions: Functions) -> Functions {
    let tries = Arc::new(AtomicUsize::new(0));
    functions
        .entities::<Account>()
        .orchestration("transfer", transfer)
        .orchestration("tour", tour)
        .orchestration("countdown", countdown)
        .orchestration("heavy", heavy)
        .activity("greet", |_, name: String| async move {
            Ok(format!("hello {name}"))
        })
        .activity("echo", |_, text: String| async move { Ok(text) })
        .activity("third_time", move |_, _: String| {
            let number = tries.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                match number {
                    3 => Ok(number),
                    _ => Err(FailureDetails::new("Early", "not yet")),
                }
            }
        })
}

fn connection(node: &Node, hub: &str) -> String {
    format!(
        "Endpoint={};TaskHub={hub};Authentication=None",
        url(node, "durable")
    )
}

async fn worker(node: &Node) -> TaskHubWorker {
    let worker = TaskHubWorker::connect(&connection(node, "default")).unwrap();
    let worker = worker.functions(functions).start().unwrap();
    tokio::time::timeout(PATIENCE, worker.ready())
        .await
        .unwrap();
    worker
}

async fn start(client: &TaskHubClient, id: &str, name: &str, input: &impl Serialize) -> String {
    let new = NewInstance {
        instance: id.into(),
        task: Task::new(name, input).unwrap(),
        ..NewInstance::default()
    };
    client.start(new).await.unwrap()
}

async fn output(client: &TaskHubClient, id: &str) -> String {
    let ended = tokio::time::timeout(PATIENCE, client.ended(id, true)).await;
    let ended = ended.unwrap().unwrap();
    assert_eq!(
        ended.status,
        InstanceStatus::Completed,
        "{:?}",
        ended.failure
    );
    ended.output.unwrap()
}

#[tokio::test]
async fn a_worker_elsewhere_runs_whatever_an_orchestration_waits_for() {
    let node = node().await;
    let _worker = worker(&node).await;
    let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
    client.hello().await.unwrap();
    assert_eq!(Account::at("tour-a").unwrap().add(&client, 7).await, Ok(7));
    start(&client, "tour", "tour", &"Ada").await;
    let started = client.started("tour", true).await.unwrap();
    assert_eq!(started.input.as_deref(), Some("\"Ada\""));
    while client
        .get("tour", false)
        .await
        .unwrap()
        .unwrap()
        .custom_status
        .is_none()
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client
        .raise("tour", "word", Some("\"go\"".into()))
        .await
        .unwrap();
    assert_eq!(output(&client, "tour").await, "\"hello Ada 3 go 5 36\"");
    let found = client
        .entity("@account@tour-a", true)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.state.as_deref(), Some(r#"{"balance":2}"#));
    assert_eq!(found.locked_by, None);
    // It has had every turn, so no history had to be read for it.
    let hub = node.task_hubs().hub("default").unwrap();
    assert_eq!(hub.history_rows_read(), 0);

    start(&client, "down", "countdown", &5u64).await;
    assert_eq!(output(&client, "down").await, "\"done\"");
    // The failure of an operation reaches the caller.
    let broke = Account::at("tour-b")
        .unwrap()
        .add(&client, -99)
        .await
        .unwrap_err();
    assert_eq!(
        (broke.kind.as_str(), broke.message.as_str()),
        ("Broke", "not enough money")
    );
}

#[tokio::test]
async fn a_client_elsewhere_does_what_a_task_hub_does() {
    let node = node().await;
    let _worker = worker(&node).await;
    let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
    assert_eq!(client.get("none", false).await.unwrap(), None);
    let missing = client.raise("none", "x", None).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoInstance);
    start(&client, "stay", "heavy", &1usize).await;
    client.started("stay", false).await.unwrap();
    let again = NewInstance {
        instance: "stay".into(),
        task: Task::new("heavy", &1usize).unwrap(),
        ..NewInstance::default()
    };
    let taken = client.start(again).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Exists);
    client.suspend("stay", Some("rest".into())).await.unwrap();
    let resting = client.get("stay", false).await.unwrap().unwrap();
    assert_eq!(resting.status, InstanceStatus::Suspended);
    client.resume("stay", None).await.unwrap();
    let state = client.rewind("stay", None).await.unwrap_err();
    assert_eq!(state.kind(), ErrorKind::State);
    client
        .terminate("stay", Some("7".into()), false)
        .await
        .unwrap();
    let ended = client.ended("stay", true).await.unwrap();
    assert_eq!(
        (ended.status, ended.output.as_deref()),
        (InstanceStatus::Terminated, Some("7"))
    );
    let page = client.list(&InstanceListQuery::default()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(client.purge("stay", false).await.unwrap(), 1);
    // The same request counts once.
    for _ in 0..3 {
        let add = EntityOperation {
            request: "00000000-0000-4000-8000-000000000001".into(),
            name: "add".into(),
            input: Some("5".into()),
            target: "@account@once".into(),
            ..EntityOperation::default()
        };
        client.signal(add).await.unwrap();
    }
    assert_eq!(Account::at("once").unwrap().balance(&client).await, Ok(5));
    let query = EntityListQuery {
        prefix: "account".into(),
        has_state: true,
        ..EntityListQuery::default()
    };
    assert_eq!(client.entities(&query).await.unwrap().items.len(), 1);
}

/// Results of turns go in parts, long histories come in parts: the second worker has
/// to replay what the first one did.
#[tokio::test]
async fn long_results_and_histories_travel_in_parts() {
    let node = node().await;
    let first = worker(&node).await;
    let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
    // 6 MB of inputs in one turn, and as much of results behind it.
    start(&client, "long", "heavy", &20usize).await;
    let hub = node.task_hubs().hub("default").unwrap();
    let joined = async {
        loop {
            let history = hub.history("long", None).await.unwrap();
            let events: usize = history.iter().map(|turn| turn.len()).sum();
            if events > 45 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, joined).await.unwrap();
    drop(first);
    let _second = worker(&node).await;
    client
        .raise("long", "go", Some("null".into()))
        .await
        .unwrap();
    assert_eq!(output(&client, "long").await, "6000000");
}

#[tokio::test]
async fn keys_open_the_door_and_nothing_else_does() {
    let file = r#"
[[key]]
name = "own"
primary = "a-secret-of-some-length-0123456789"
rights = ["manage durable/blue"]
"#;
    let node = node_with_file(file).await;
    let with = |key: &str, hub: &str| {
        let endpoint = url(&node, "durable");
        TaskHubClient::connect(&format!(
            "Endpoint={endpoint};TaskHub={hub};AccessKey={key}"
        ))
        .unwrap()
    };
    let good = with("a-secret-of-some-length-0123456789", "blue");
    assert_eq!(good.get("none", false).await.unwrap(), None);
    for (key, hub) in [
        ("wrong", "blue"),
        ("a-secret-of-some-length-0123456789", "red"),
    ] {
        let refused = with(key, hub).get("none", false).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
    }
    let nowhere = TaskHubClient::connect("http://127.0.0.1:9").unwrap();
    assert_eq!(
        nowhere.hello().await.unwrap_err().kind(),
        ErrorKind::Unreachable
    );
}

#[tokio::test]
async fn the_way_may_be_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (pem, key) = (folder.path().join("tls.pem"), folder.path().join("tls.key"));
    std::fs::write(&pem, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let file = format!(
        r#"
[tls]
certificate = {pem:?}
key = {key:?}

[[key]]
name = "own"
primary = "a-secret-of-some-length-0123456789"
rights = ["manage durable"]
"#
    );
    let node = node_with_file(&file).await;
    let endpoint = url(&node, "durable");
    assert!(endpoint.starts_with("https://"), "{endpoint}");
    let secret = "AccessKey=a-secret-of-some-length-0123456789";
    let known = format!(
        "Endpoint={endpoint};{secret};Certificates={}",
        pem.display()
    );
    let client = TaskHubClient::connect(&known).unwrap();
    assert_eq!(client.get("none", false).await.unwrap(), None);
    // Other clients do not trust this certificate, and nothing is sent in the clear.
    let plain = endpoint.replace("https://", "http://");
    for connection in [
        format!("Endpoint={endpoint};{secret}"),
        format!("Endpoint={plain};{secret}"),
    ] {
        let client = TaskHubClient::connect(&connection).unwrap();
        let refused = client.hello().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
    }
}

#[tokio::test]
async fn code_that_has_changed_suspends_its_instance() {
    let node = node().await;
    let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
    let run = |code: fn(Functions) -> Functions| {
        let worker = TaskHubWorker::connect(&connection(&node, "default")).unwrap();
        worker.functions(code).start().unwrap()
    };
    let old = run(|f| {
        let code = |cx: Context, (): ()| async move {
            cx.activity::<_, ()>("one", &()).await?;
            cx.event::<()>("go").await
        };
        let f = f.orchestration("f", code);
        f.activity("one", |_, (): ()| async { Ok(()) })
    });
    start(&client, "i", "f", &()).await;
    let hub = node.task_hubs().hub("default").unwrap();
    while hub.history("i", None).await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(old);
    let _new = run(|f| {
        let code = |cx: Context, (): ()| async move {
            cx.activity::<_, ()>("other", &()).await?;
            cx.event::<()>("go").await
        };
        f.orchestration("f", code)
    });
    client.raise("i", "go", None).await.unwrap();
    let suspended = async {
        while client.get("i", false).await.unwrap().unwrap().status != InstanceStatus::Suspended {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, suspended).await.unwrap();
}

#[tokio::test]
async fn a_worker_takes_no_more_than_it_wants_and_leaves_with_its_work_done() {
    let node = node().await;
    let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, seen) = (Arc::clone(&now), Arc::clone(&most));
    let worker = TaskHubWorker::connect(&connection(&node, "default")).unwrap();
    let worker = worker
        .name("narrow")
        .at_a_time(8, 2, 8)
        .functions(|f| {
            let slow = move |_, (): ()| {
                let (now, most) = (Arc::clone(&running), Arc::clone(&seen));
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                }
            };
            let fan = |cx: Context, (): ()| async move {
                let calls = (0..12).map(|_| cx.activity::<_, ()>("slow", &())).collect();
                Ok(futures(calls).await.len())
            };
            f.activity("slow", slow).orchestration("fan", fan)
        })
        .start()
        .unwrap();
    start(&client, "fan", "fan", &()).await;
    assert_eq!(output(&client, "fan").await, "12");
    assert_eq!(most.load(Ordering::SeqCst), 2);
    start(&client, "later", "fan", &()).await;
    while now.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    worker.leave(PATIENCE).await;
    assert_eq!(now.load(Ordering::SeqCst), 0, "nothing was broken off");
}

/// The worker is a process of its own: this test, started again.
const CONNECTION: &str = "STEADFAST_WORKER_CONNECTION";
/// A step ends when there is a file with its number in this folder.
const GATES: &str = "STEADFAST_WORKER_GATES";

#[test]
fn durable_36_37_work_of_a_killed_worker_is_done_by_its_successor() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Ok(connection) = std::env::var(CONNECTION) {
        return runtime.block_on(be_a_worker(&connection));
    }
    let gates = tempfile::tempdir().unwrap();
    let open = |number: u64| std::fs::write(gates.path().join(number.to_string()), "").unwrap();
    runtime.block_on(async {
        let node = node().await;
        let client = TaskHubClient::connect(&connection(&node, "default")).unwrap();
        let spawn = || {
            let test = "durable_36_37_work_of_a_killed_worker_is_done_by_its_successor";
            let mut command = own_test(module_path!(), test);
            command.env(CONNECTION, connection(&node, "default"));
            command.env(GATES, gates.path());
            let mut child = Process::spawn(command).unwrap();
            child.wait_for(|line| line == "at work", PATIENCE).unwrap();
            child
        };
        let mut first = spawn();
        start(&client, "steps", "steps", &3u64).await;
        first.wait_for(|line| line == "began 1", PATIENCE).unwrap();
        first.kill().unwrap();
        let began = tokio::time::Instant::now();
        let mut second = spawn();
        second.wait_for(|line| line == "began 1", PATIENCE).unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        open(1);
        second.wait_for(|line| line == "began 2", PATIENCE).unwrap();
        second.kill().unwrap();
        let _third = spawn();
        open(2);
        open(3);
        assert_eq!(output(&client, "steps").await, "6");
        let hub = node.task_hubs().hub("default").unwrap();
        let history = hub.history("steps", None).await.unwrap();
        let events = history.iter().flat_map(|turn| turn.iter());
        let results = events.filter(|event| matches!(event.what, EventKind::TaskCompleted { .. }));
        assert_eq!(results.count(), 3, "one result of each is recorded");
    });
}

async fn be_a_worker(connection: &str) {
    let gates = std::path::PathBuf::from(std::env::var_os(GATES).unwrap());
    let step = move |_: ActivityContext, number: u64| {
        let gate = gates.join(number.to_string());
        async move {
            println!("began {number}");
            while !gate.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(number)
        }
    };
    let steps = |cx: Context, count: u64| async move {
        let mut sum = 0;
        for number in 1..=count {
            sum += cx.activity::<_, u64>("step", &number).await?;
        }
        Ok::<u64, FailureDetails>(sum)
    };
    let worker = TaskHubWorker::connect(connection).unwrap();
    let worker = worker.functions(|f| f.orchestration("steps", steps).activity("step", step));
    let worker = worker.start().unwrap();
    worker.ready().await;
    println!("at work");
    std::future::pending::<()>().await;
}
