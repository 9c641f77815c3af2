//! Jobs on nodes that are frozen, and go on.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::nodes::{database, node, settled};
use crate::regions::jobs::{self, Target};
use crate::running::{KNOWN, Server, until};

/// How many calls to one host are under way at a time.
const AT_ONCE: usize = 64;

/// More than that, so that some wait.
const JOBS: usize = 200;

fn put(server: &Server, path: &str, body: &Value) {
    let place = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler";
    let url = format!(
        "{}{place}/jobCollections/c{path}?api-version=2016-03-01",
        server.url
    );
    let request = server.client.request(Method::PUT, url);
    let request = request
        .header("authorization", format!("Bearer {KNOWN}"))
        .json(body);
    let status = server.block(async { request.send().await.unwrap().status() });
    assert_eq!(status, StatusCode::CREATED, "{path}");
}

/// A node that was frozen has calls in hand that another one has made since: it makes
/// none of them.
#[test]
fn a_node_that_was_frozen_calls_nobody_with_an_old_epoch() {
    let target = Target::start();
    let database = database();
    let small = |name: &str| node(name, &database).set("jobs.quotas=false");
    let a = small("a").ready();
    put(&a, "", &json!({"location": "West US", "properties": {}}));
    let start = jobs::in_seconds(4);
    for number in 0..JOBS {
        let uri = format!("{}/patient/{number}", target.url);
        let request = json!({"method": "POST", "uri": uri, "body": "x"});
        let action = json!({"type": "Http", "request": request});
        let job = json!({"properties": {"startTime": start, "action": action}});
        put(&a, &format!("/jobs/j{number}"), &job);
    }
    // As many as are under way at a time: the others wait while these have no answer.
    until("calls of the first node", || {
        (target.heard().len() >= AT_ONCE).then_some(())
    });
    // Before anybody gets an answer it stands still.
    a.process.freeze().unwrap();
    target.answer_the_patient();
    let b = small("b").ready();
    let called = |from: usize| -> BTreeSet<String> {
        let heard = target.heard().into_iter().skip(from);
        heard.map(|one| one.path).collect()
    };
    until("all calls, by the second node", || {
        (called(0).len() == JOBS).then_some(())
    });
    let frozen = target.heard();
    let old = frozen.iter().map(|one| one.epoch).min().unwrap();
    let of_first = frozen.iter().filter(|one| one.epoch == old).count();
    println!(
        "{of_first} calls before the freeze, {} in all",
        frozen.len()
    );
    assert!(of_first < JOBS, "nothing was left to be called");
    a.process.thaw().unwrap();
    // It finds out, joins again, and gets its share.
    settled(&b, 2);
    settled(&a, 2);
    let late: Vec<_> = target.heard().into_iter().skip(frozen.len()).collect();
    let stale: Vec<_> = late.iter().filter(|one| one.epoch <= old).collect();
    assert!(stale.is_empty(), "called with an old epoch: {stale:?}");
}
