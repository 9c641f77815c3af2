//! Orchestrations and entities, with a worker of today.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast::durable::{Context, FailureDetails, TaskHubWorker, entity};

use super::{get, post};
use crate::running::{Server, until};

pub(super) const HUB: &str = "/runtime/webhooks/durabletask";

/// Statuses of instances that have not ended.
const OPEN: [&str; 3] = ["Pending", "Running", "Suspended"];

#[derive(Default, Serialize, Deserialize)]
struct Account {
    balance: i64,
}

#[entity]
impl Account {
    fn add(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }
}

async fn wait(cx: Context, name: String) -> Result<String, FailureDetails> {
    let seen: u64 = cx.activity("measure", &name).await?;
    let word: String = cx.event("go").await?;
    Ok(format!("{name} {seen} {word}"))
}

async fn parent(cx: Context, name: String) -> Result<String, FailureDetails> {
    let inner: String = cx.child("wait", &name).id("inner").await?;
    Ok(format!("of {inner}"))
}

async fn sleep(cx: Context, _: Option<u64>) -> Result<(), FailureDetails> {
    cx.set_status("asleep")?;
    cx.sleep(std::time::Duration::from_secs(50 * 365 * 86_400))
        .await;
    Ok(())
}

async fn hold(cx: Context, name: String) -> Result<i64, FailureDetails> {
    let account = Account::at(&name)?;
    let section = cx.lock([account.id()]).await?;
    account.add(&cx, 1).await?;
    let more: i64 = cx.event("release").await?;
    let balance = account.add(&cx, more).await?;
    drop(section);
    Ok(balance)
}

/// A worker with the code of the worker of before, and the activity that it lacked.
pub(super) fn worker(server: &Server) -> TaskHubWorker {
    TaskHubWorker::connect(&format!("Endpoint={};TaskHub=default", server.url))
        .unwrap()
        .functions(|all| {
            all.entities::<Account>()
                .orchestration("double", |_: Context, n: u64| async move {
                    Ok::<_, FailureDetails>(2 * n)
                })
                .orchestration("wait", wait)
                .orchestration("parent", parent)
                .orchestration("sleep", sleep)
                .orchestration("hold", hold)
                .orchestration("orphan", |cx: Context, n: u64| async move {
                    let found: u64 = cx.activity("nowhere", &n).await?;
                    Ok::<_, FailureDetails>(found)
                })
                .activity("nowhere", |_, n: u64| async move {
                    Ok::<_, FailureDetails>(n + 1)
                })
                .activity("measure", |_, name: String| async move {
                    Ok::<_, FailureDetails>(name.len() as u64)
                })
        })
        .start()
        .unwrap()
}

/// Instances of before get what they wait for, locks are released, and entities have
/// their states.
pub(super) fn goes_on(server: &Server) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let entered = runtime.enter();
    let worker = worker(server);
    runtime.block_on(worker.ready());
    let steer = |path: &str, body: Value| {
        post(server, &format!("{HUB}/{path}"), body);
    };
    steer("instances/waiting/raiseEvent/go", json!("up"));
    ended(server, "waiting", "Completed", &json!("cellar 6 up"));
    steer("instances/inner/raiseEvent/go", json!("in"));
    ended(server, "parent", "Completed", &json!("of child 5 in"));
    steer("instances/paused/raiseEvent/go", json!("on"));
    steer("instances/paused/resume", json!(null));
    ended(server, "paused", "Completed", &json!("porch 5 on"));
    ended(server, "orphan", "Completed", &json!(5));
    steer("instances/asleep/terminate?reason=enough", json!(null));
    ended(server, "asleep", "Terminated", &json!("enough"));
    steer("instances/pending/terminate?reason=enough", json!(null));
    ended(server, "pending", "Terminated", &json!("enough"));

    let locks = get(server, &format!("{HUB}/locks"));
    assert!(locks.to_string().contains("holder"), "{locks}");
    steer("instances/holder/raiseEvent/release", json!(10));
    ended(server, "holder", "Completed", &json!(11));
    until("the signal behind the lock", || {
        let state = get(server, &format!("{HUB}/entities/account/locked"));
        (state == json!({"balance": 1011})).then_some(())
    });
    let locks = get(server, &format!("{HUB}/locks"));
    assert!(!locks.to_string().contains("holder"), "{locks}");
    let call = |key: &str, amount: i64| {
        post(
            server,
            &format!("{HUB}/entities/account/{key}/call?op=add"),
            json!(amount),
        )
    };
    assert_eq!(call("alice", 1), json!(13));
    assert_eq!(call("bob", 1), json!(-2));
    let started = post(
        server,
        &format!("{HUB}/orchestrators/double/new?timeout=30"),
        json!(3),
    );
    assert_eq!(started, json!(6));
    runtime.block_on(worker.leave(crate::running::PATIENCE));
    drop(entered);
}

fn ended(server: &Server, id: &str, status: &str, output: &Value) {
    let found = until(id, || {
        let found = get(server, &format!("{HUB}/instances/{id}"));
        let is_open = OPEN.iter().any(|open| found["runtimeStatus"] == *open);
        (!is_open).then_some(found)
    });
    assert_eq!(found["runtimeStatus"], status, "{found}");
    assert_eq!(found["output"], *output, "{found}");
}

/// What has ended today is there after another start.
pub(super) fn is_kept(server: &Server) {
    ended(server, "waiting", "Completed", &json!("cellar 6 up"));
    ended(server, "new", "Completed", &json!(6));
    let state = get(server, &format!("{HUB}/entities/account/alice"));
    assert_eq!(state, json!({"balance": 13}));
}
