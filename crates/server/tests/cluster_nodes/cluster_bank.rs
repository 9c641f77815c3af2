//! A bank over nodes and a database that are killed.
//!
//! In the test command a standby is promoted by hand. `STEADFAST_ROUNDS` says how many
//! rounds, and leaves the failover to a manager; `STEADFAST_SEED` says which rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::nodes::failover::{Blow, Database};
use crate::nodes::{Caller, LEASE, Over, agreed, node, now, settled, taken_over, three};
use crate::running::stalls::Stalls;
use crate::running::{Server, until};

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

/// Writes a transfer down, whatever was written before: if that happened twice, it would
/// be there twice. Whether it was acknowledged.
fn note(caller: &Caller, name: &str, id: &str) -> bool {
    let steps = json!([{"op": "enqueue", "collection": "journal", "value": id}]);
    transact(caller, name, &steps).0 == StatusCode::OK
}

/// Takes everything out of the journal of a branch.
fn journal(caller: &Caller, name: &str) -> Vec<String> {
    let steps = json!(vec![json!({"op": "dequeue", "collection": "journal"}); 20]);
    let mut all = Vec::new();
    loop {
        let (status, answer) = transact(caller, name, &steps);
        assert_eq!(status, StatusCode::OK, "{answer}");
        let results = answer["results"].as_array().unwrap();
        let values = results.iter().filter_map(|result| result["value"].as_str());
        all.extend(values.map(str::to_owned));
        if results.iter().any(|result| result["found"] == false) {
            return all;
        }
    }
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

/// Waits until every branch takes a write through a node.
fn usable(caller: &Caller) {
    let step = json!([{"op": "put", "collection": "probes", "key": "p", "value": 1}]);
    for place in 0..BRANCHES {
        until("a branch that takes a write", || {
            let (status, _) = transact(caller, &branch(place), &step);
            (status == StatusCode::OK).then_some(())
        });
    }
}

/// Clients that move money until they are stopped.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    tried: AtomicU64,
    /// By branch and id.
    acknowledged: Mutex<BTreeSet<(usize, String)>>,
    /// What was written into journals, and whether that was acknowledged.
    noted: Mutex<BTreeMap<(usize, String), bool>>,
    /// Nodes come back at other addresses.
    callers: Mutex<Vec<Arc<Caller>>>,
}

impl Load {
    fn run(&self, client: usize) {
        let mut number = 0u64;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let caller = self.callers.lock().unwrap()[(client + number as usize) % 3].clone();
            let place = (client * 2 + number as usize) % BRANCHES;
            let (from, to) = (number % ACCOUNTS, (number / 3 + 1) % ACCOUNTS);
            if from == to {
                continue;
            }
            let id = format!("{client}-{number}");
            self.tried.fetch_add(1, Ordering::Relaxed);
            let amount = (number % 7) as i64 + 1;
            if transfer(&caller, &branch(place), &id, from, to, amount) {
                self.acknowledged
                    .lock()
                    .unwrap()
                    .insert((place, id.clone()));
            }
            let is_noted = note(&caller, &branch(place), &id);
            self.noted.lock().unwrap().insert((place, id), is_noted);
        }
    }
}

/// How many rounds, whether a manager promotes, and which rounds.
fn plan() -> (usize, bool, u64) {
    let number = |name: &str| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse::<u64>().unwrap())
    };
    let rounds = number("STEADFAST_ROUNDS");
    let seed = number("STEADFAST_SEED").unwrap_or_else(|| fastrand::u64(..));
    (rounds.unwrap_or(3) as usize, rounds.is_some(), seed)
}

/// A node and the database's primary die at once; another node stands still; both come
/// back. Answers how long after the promotion everything was served again.
fn round(
    nodes: &mut [Server],
    database: &mut Database,
    blow: Blow,
    [killed, frozen, stays]: [usize; 3],
    load: &Load,
) -> Duration {
    let url = database.url();
    nodes[killed].process.kill().unwrap();
    let promoted = database.fail(blow);
    taken_over(&nodes[stays], 2, promoted);
    let caller = load.callers.lock().unwrap()[stays].clone();
    usable(&caller);
    let took = promoted.elapsed();
    // The database becomes whole again while another node stands still.
    std::thread::scope(|scope| {
        scope.spawn(|| database.heal());
        nodes[frozen].process.freeze().unwrap();
        taken_over(&nodes[stays], 1, now());
        nodes[frozen].process.thaw().unwrap();
        nodes[killed] = node(["a", "b", "c"][killed], &url).ready();
    });
    load.callers.lock().unwrap()[killed] = Arc::new(Caller::of(&nodes[killed]));
    settled(&nodes[stays], 3);
    agreed(nodes);
    took
}

#[test]
fn c62_unknown_transfers_happen_once_or_not_at_all() {
    let (rounds, is_managed, seed) = plan();
    println!("STEADFAST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut database = Database::start(is_managed);
    let mut nodes = three(&database.url());
    let (load, stalls) = (Load::default(), Stalls::watch());
    let callers = nodes.iter().map(Caller::of).map(Arc::new);
    load.callers.lock().unwrap().extend(callers);
    let first = load.callers.lock().unwrap()[0].clone();
    open(&first);
    let mut takeovers = Vec::new();
    std::thread::scope(|scope| {
        let _over = Over(&load.stop);
        for client in 0..3 {
            let load = &load;
            scope.spawn(move || load.run(client));
        }
        for number in 0..rounds {
            // By hand a frozen primary would have to be thawed by hand, too: T2 does that.
            let blow = if is_managed && random.bool() {
                Blow::Freeze
            } else {
                Blow::Kill
            };
            let mut roles = [0, 1, 2];
            random.shuffle(&mut roles);
            let took = round(&mut nodes, &mut database, blow, roles, &load);
            let done = load.acknowledged.lock().unwrap().len();
            println!("round {number}: {blow:?}, served {took:?} after the promotion, {done} done");
            takeovers.push(took);
        }
    });
    let tried = load.tried.load(Ordering::Relaxed);
    let acknowledged = load.acknowledged.into_inner().unwrap();
    println!(
        "{tried} transfers tried, {} acknowledged; a node and the primary killed at once: \
         everything served {takeovers:?} after the promotion, the lease is {LEASE:?}",
        acknowledged.len()
    );
    // Leases that were given on another database's clock count for one more.
    let limit = LEASE * 2 + Duration::from_secs(2) + stalls.lost();
    assert!(takeovers.iter().all(|took| *took < limit), "{takeovers:?}");
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    check(&nodes, &acknowledged);
    check_journals(&nodes, &load.noted.into_inner().unwrap());
}

/// What was acknowledged is there once, and nothing is there twice.
fn check_journals(nodes: &[Server], noted: &BTreeMap<(usize, String), bool>) {
    let caller = Caller::of(&nodes[0]);
    let mut unknown = 0;
    for place in 0..BRANCHES {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for id in journal(&caller, &branch(place)) {
            *found.entry(id).or_default() += 1;
        }
        for ((_, id), is_noted) in noted.iter().filter(|((own, _), _)| *own == place) {
            let times = found.remove(id).unwrap_or(0);
            let is_right = times == 1 || (times == 0 && !is_noted);
            assert!(is_right, "{id} is there {times} times, told: {is_noted}");
            unknown += u64::from(times == 1 && !is_noted);
        }
        assert!(found.is_empty(), "no client has written {found:?}");
    }
    let told = noted.values().filter(|is_noted| **is_noted).count();
    println!("journals: {told} notes acknowledged, {unknown} more have happened, none twice");
}

/// Nothing acknowledged is missing, nothing has happened twice, and all nodes agree.
fn check(nodes: &[Server], acknowledged: &BTreeSet<(usize, String)>) {
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
