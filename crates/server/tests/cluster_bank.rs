//! A bank over nodes that are killed and frozen.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod nodes;
mod running;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nodes::{Caller, LEASE, database, node, now, settled, taken_over, three};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Branches of the bank: each is a slot, and so lives in a partition of its own.
const BRANCHES: usize = 6;
const ACCOUNTS: u64 = 5;
const START: i64 = 100;

fn branch(number: usize) -> String {
    format!("branch-{number}")
}

fn transact(caller: &Caller, branch: &str, steps: &Value) -> (StatusCode, Value) {
    let body = json!({"slot": branch, "steps": steps});
    caller.ask(Method::POST, "/v1/state/bank", Some(body))
}

/// Opens all accounts of all branches.
fn open(caller: &Caller) {
    let names: Vec<_> = (0..BRANCHES).map(branch).collect();
    let scheme = json!({"scheme": {"named": names}});
    let (status, answer) = caller.ask(Method::PUT, "/v1/state/bank", Some(scheme));
    assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
    for name in &names {
        let steps: Vec<_> = (0..ACCOUNTS)
            .map(|account| json!({"op": "put", "collection": "accounts", "key": account.to_string(), "value": START}))
            .collect();
        assert_eq!(transact(caller, name, &json!(steps)).0, StatusCode::OK);
    }
}

/// Moves money once; whether it was acknowledged.
fn transfer(caller: &Caller, name: &str, id: &str, from: u64, to: u64, amount: i64) -> bool {
    let get =
        |account: u64| json!({"op": "get", "collection": "accounts", "key": account.to_string()});
    let (status, found) = transact(caller, name, &json!([get(from), get(to)]));
    if status != StatusCode::OK {
        return false;
    }
    let put = |account: u64, index: usize, change: i64| {
        let found = &found["results"][index];
        let value = found["value"].as_i64().unwrap() + change;
        json!({"op": "put", "collection": "accounts", "key": account.to_string(),
               "value": value, "if": {"etag": found["etag"]}})
    };
    let receipt = json!({"from": from, "to": to, "amount": amount});
    let receipt =
        json!({"op": "put", "collection": "receipts", "key": id, "value": receipt, "if": "absent"});
    let steps = json!([put(from, 0, -amount), put(to, 1, amount), receipt]);
    transact(caller, name, &steps).0 == StatusCode::OK
}

/// All entries of a collection of a branch.
fn entries(caller: &Caller, name: &str, collection: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut from = String::new();
    loop {
        let path = format!("/v1/state/bank/{collection}?slot={name}&limit=1000&from={from}");
        let (status, page) = caller.ask(Method::GET, &path, None);
        assert_eq!(status, StatusCode::OK, "{page}");
        for entry in page["entries"].as_array().unwrap() {
            let key = entry["key"].as_str().unwrap().to_owned();
            all.push((key, entry["value"].clone()));
        }
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn c62_unknown_transfers_happen_once_or_not_at_all() {
    let database = database();
    let mut nodes = three(&database);
    let callers: Vec<_> = nodes.iter().map(Caller::of).collect();
    open(&callers[0]);
    let stop = AtomicBool::new(false);
    let tried = AtomicU64::new(0);
    let acknowledged: Mutex<BTreeSet<(usize, String)>> = Mutex::default();
    // Nodes come back at other addresses.
    let addresses = Mutex::new(
        callers
            .into_iter()
            .map(std::sync::Arc::new)
            .collect::<Vec<_>>(),
    );
    let mut takeovers = Vec::new();
    std::thread::scope(|scope| {
        for client in 0..3usize {
            let (stop, tried, acknowledged, addresses) = (&stop, &tried, &acknowledged, &addresses);
            scope.spawn(move || {
                let mut number = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let caller = addresses.lock().unwrap()[(client + number as usize) % 3].clone();
                    let place = (client * 2 + number as usize) % BRANCHES;
                    let (from, to) = (number % ACCOUNTS, (number / 3 + 1) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let id = format!("{client}-{number}");
                    tried.fetch_add(1, Ordering::Relaxed);
                    let amount = (number % 7) as i64 + 1;
                    if transfer(&caller, &branch(place), &id, from, to, amount) {
                        acknowledged.lock().unwrap().insert((place, id));
                    }
                }
            });
        }
        for round in 0..3usize {
            // One is killed and comes back, another one stands still.
            let (killed, frozen) = (1 + round % 2, 2 - round % 2);
            let began = now();
            nodes[killed].process.kill().unwrap();
            let first = &nodes[0];
            takeovers.push(taken_over(first, 2, began));
            nodes[frozen].process.freeze().unwrap();
            taken_over(first, 1, now());
            nodes[frozen].process.thaw().unwrap();
            let name = ["a", "b", "c"][killed];
            nodes[killed] = node(name, &database).ready();
            addresses.lock().unwrap()[killed] = std::sync::Arc::new(Caller::of(&nodes[killed]));
            settled(&nodes[0], 3);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let tried = tried.load(Ordering::Relaxed);
    let acknowledged = acknowledged.into_inner().unwrap();
    println!(
        "{tried} transfers tried, {} acknowledged, takeovers after kills {takeovers:?}",
        acknowledged.len()
    );
    assert!(
        takeovers
            .iter()
            .all(|took| *took < LEASE + Duration::from_secs(2)),
        "{takeovers:?}"
    );
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let callers: Vec<_> = nodes.iter().map(Caller::of).collect();
    for place in 0..BRANCHES {
        let name = branch(place);
        let balances = entries(&callers[0], &name, "accounts");
        let receipts = entries(&callers[1], &name, "receipts");
        for (_, id) in acknowledged.iter().filter(|(own, _)| *own == place) {
            let is_there = receipts.iter().any(|(found, _)| found == id);
            assert!(is_there, "{name}: {id} was acknowledged and is gone");
        }
        // Every transfer that has left a receipt has moved its money once, and no other.
        let mut expected = vec![START; ACCOUNTS as usize];
        for (_, receipt) in &receipts {
            let number = |field: &str| receipt[field].as_i64().unwrap();
            expected[number("from") as usize] -= number("amount");
            expected[number("to") as usize] += number("amount");
        }
        let found: Vec<_> = balances
            .iter()
            .map(|(_, balance)| balance.as_i64().unwrap())
            .collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(found.iter().sum::<i64>(), START * ACCOUNTS as i64, "{name}");
        // All nodes agree.
        for caller in &callers[1..] {
            assert_eq!(entries(caller, &name, "accounts"), balances);
        }
    }
}
