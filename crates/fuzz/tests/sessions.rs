//! Every kept input, and mutations of them, in turn.
//!
//! Coverage guides nothing here: `cargo xtask soak fuzz` does that. The seed and the
//! number of mutations are fixed, so every run executes the same inputs.

use steadfast_fuzz::{Mutator, TARGETS, Target, corpus, find};

/// How many mutations of a target are executed, unless `STEADFAST_ROUNDS` says how many.
const ROUNDS: u64 = 1000;

/// The seed of the mutations, unless `STEADFAST_SEED` says another.
const SEED: u64 = 1;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Executes one input; what fails is written as it must be kept in the corpus.
fn execute(target: &Target, origin: &str, input: &[u8]) {
    let run = std::panic::AssertUnwindSafe(|| (target.run)(input));
    if let Err(panic) = std::panic::catch_unwind(run) {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("steadfast-fuzz-{}-{origin}", target.name));
        std::fs::write(&file, input).expect("the input can be written");
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        let words = words.unwrap_or("see above");
        panic!("{} fails on {}: {words}", target.name, file.display());
    }
}

fn survive(name: &str) {
    let target = find(name).expect("the target is in the list");
    let mut inputs = (target.seeds)();
    assert!(!inputs.is_empty(), "a target has seeds");
    for (index, seed) in inputs.iter().enumerate() {
        execute(target, &format!("seed-{index}"), seed);
    }
    for (file, input) in corpus(target) {
        execute(target, &file, &input);
        inputs.push(input);
    }
    let mut mutator = Mutator::new(inputs, number("STEADFAST_SEED").unwrap_or(SEED));
    for round in 0..number("STEADFAST_ROUNDS").unwrap_or(ROUNDS) {
        execute(target, &format!("mutation-{round}"), &mutator.next_input());
    }
}

#[test]
fn http_connections_survive_every_input() {
    survive("http");
}

#[test]
fn amqp_connections_survive_every_input() {
    survive("amqp");
}

#[test]
fn requests_for_blobs_survive_every_input() {
    survive("blob");
}

#[test]
fn events_by_http_survive_every_input() {
    survive("publish");
}

#[test]
fn signalr_sessions_survive_every_input() {
    survive("signalr");
}

#[test]
fn links_of_app_servers_survive_every_input() {
    survive("links");
}

#[test]
fn durable_task_requests_survive_every_input() {
    survive("durable-grpc");
}

#[test]
fn durable_rest_requests_survive_every_input() {
    survive("durable-rest");
}

#[test]
fn scheduler_requests_survive_every_input() {
    survive("scheduler");
}

#[test]
fn greetings_of_nodes_survive_every_input() {
    survive("handshake");
}

#[test]
fn messages_between_nodes_survive_every_input() {
    survive("peers");
}

#[test]
fn proofs_survive_every_input() {
    survive("tokens");
}

#[test]
fn certificate_files_survive_every_input() {
    survive("pkcs12");
}

#[test]
fn every_target_has_a_test() {
    let source = include_str!("sessions.rs");
    for target in TARGETS {
        let call = format!("survive(\"{}\")", target.name);
        assert!(source.contains(&call), "{} has no test", target.name);
    }
}
