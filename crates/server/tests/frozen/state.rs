//! Collections by REST.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{get, post, put};
use crate::running::{KNOWN, Server};

const ACCOUNTS: &str = "/v1/state/bank/accounts";

/// Values can be read and changed, in transactions and by the tags of before.
pub(super) fn goes_on(server: &Server, recorded: &Value) {
    assert_eq!(get(server, &format!("{ACCOUNTS}/bob")), json!(16));
    assert_eq!(
        get(server, &format!("{ACCOUNTS}/carol")),
        json!({"late": true})
    );
    let values = get(server, "/v1/state/bank/values");
    let value = |name: &str| {
        let entries = values["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["key"] == name).unwrap();
        entry["value"].clone()
    };
    assert_eq!(value("large"), json!(u64::MAX));
    assert_eq!(value("least"), json!(i64::MIN));
    assert_eq!(value("text"), json!("Größe 🏠"));
    assert_eq!(value("list"), json!([1, "two", [3.5, null]]));
    assert_eq!(value("long"), json!("x".repeat(5000)));

    let entries = recorded[ACCOUNTS]["entries"].as_array().unwrap();
    let alice = entries
        .iter()
        .find(|entry| entry["key"] == "alice")
        .unwrap();
    let tag = alice["etag"].as_str().unwrap();
    let write = |value: i64| {
        let request = server.client.put(format!("{}{ACCOUNTS}/alice", server.url));
        let request = request.bearer_auth(KNOWN).header("if-match", tag);
        let sent = async { request.json(&value).send().await.unwrap().status() };
        server.block(sent)
    };
    assert_eq!(write(80), StatusCode::NO_CONTENT, "the tag of before");
    assert_eq!(write(70), StatusCode::PRECONDITION_FAILED, "it was used");

    let answer = post(
        server,
        "/v1/state/bank",
        json!({"steps": [
            {"op": "dequeue", "collection": "moves"},
            {"op": "dequeue", "collection": "moves"},
            {"op": "dequeue", "collection": "moves"},
            {"op": "enqueue", "collection": "moves", "value": "new"},
            {"op": "put", "collection": "accounts", "key": "bob", "value": 26, "if": "present"},
        ]}),
    );
    let results = &answer["results"];
    assert_eq!(results[0]["value"], json!("first"));
    assert_eq!(results[1]["value"], json!({"second": 2}));
    assert_eq!(results[2]["value"], json!([3]));
    put(server, "/v1/state/years/rows/50?slot=50", json!(50));
    put(
        server,
        "/v1/state/ledger/rows/row-99?slot=north",
        json!("new"),
    );
}

/// What was written today is there after another start.
pub(super) fn is_kept(server: &Server) {
    assert_eq!(get(server, &format!("{ACCOUNTS}/alice")), json!(80));
    assert_eq!(get(server, &format!("{ACCOUNTS}/bob")), json!(26));
    let rows = get(server, "/v1/state/ledger/rows?slot=north&limit=100");
    assert_eq!(rows["entries"].as_array().unwrap().len(), 21, "{rows}");
    let step = json!({"steps": [{"op": "dequeue", "collection": "moves"}]});
    assert_eq!(
        post(server, "/v1/state/bank", step)["results"][0]["value"],
        "new"
    );
}
