//! The `steadfast` command.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments or settings, 3 resource not found,
//! 4 time-out, 5 an orchestration that did not complete.
//!
//! # Tests
//!
//! `crates/server/tests` runs the binary as a user does: `tests/server` are real servers
//! with real clients, signals, TLS, a collector of spans and a socket of systemd.
//!
//! - `tests/cluster_nodes`: three nodes on PostgreSQL: they join, leave, are killed and
//!   frozen; a bank; unauthenticated peers; every service through every node; hubs, readers
//!   and processors over all of them; workers of one node for all; real SDKs at a node that
//!   owns nothing, and at nodes that are drained and killed.
//! - `tests/cluster_nodes/volatile.rs`: replicated volatile partitions with processes: a
//!   node leaves, one joins, two are killed with -9 under load, one is frozen, all are
//!   killed.
//! - `tests/cluster_nodes/isolated.rs`: a node that reaches the database but cannot be
//!   reached by other nodes gives up its partitions, and later acquires its share again.
//! - `tests/cluster_nodes/metrics.rs`: the counters of a node for stalled replay, lost
//!   responses of the database and late entries.
//! - `tests/cluster_nodes/shards.rs`: partitions over several databases: one of two loses
//!   its primary under load; a move that is killed again and again; scrub and backup.
//! - `tests/cluster_nodes/recipe.rs`: the guide's recipe with TLS; a node is reached at its
//!   advertised address.
//! - `tests/cluster_nodes/jobs.rs`: a node that is frozen with calls in progress makes
//!   none of them when it continues.
//! - `tests/cluster_nodes/stalled.rs`: peers of every kind stop reading under load for 30
//!   s and are killed: health is answered within 100 ms, everything else continues.
//! - `tests/cluster_nodes/cluster_regions.rs`: two regions and a witness as processes:
//!   killed with their disks, frozen, cut off; a home for each collection, and names that
//!   both request; `jobs_46_..` to `jobs_50_..`.
//! - `tests/cluster_nodes/takeover.rs`: a region that takes over runs every missed
//!   occurrence, in order, behind one that waits.
//! - `tests/server/durable_bank.rs`: server and workers as processes that are killed.
//! - `tests/guard/guard_rights.rs`, `tests/guard/hubs.rs` and `tests/guard/links.rs`:
//!   every route with every proof and grant.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
#![cfg_attr(
    not(all(
        feature = "cluster",
        feature = "durabletask",
        feature = "eventhubs",
        feature = "postgres",
        feature = "scheduler",
        feature = "signalr"
    )),
    allow(dead_code, reason = "what only absent commands use")
)]

mod allocator;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "eventhubs")]
mod blob;
mod capability;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
mod config;
mod confirm;
mod context;
#[cfg(feature = "durabletask")]
mod entity;
#[cfg(feature = "eventhubs")]
mod eventhub;
mod exit;
mod globals;
mod help;
#[cfg(feature = "signalr")]
mod hub;
#[cfg(feature = "scheduler")]
mod job;
mod key;
mod listing;
mod output;
mod server;
mod server_client;
mod server_context;
mod shell;
mod state;
mod status_poll;
mod store;
mod strings;
#[cfg(feature = "durabletask")]
mod taskhub;
#[cfg(feature = "durabletask")]
mod workflow;

use std::process::ExitCode;

use clap::FromArgMatches;
use serde_json::json;

use command::Arguments;
use output::OutputFormat;

fn main() -> ExitCode {
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    // All TLS in this process uses ring; the provider can be installed only once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if arguments.command.keeps_state() {
        // Also applies to files that libraries create, such as tables.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    if arguments.globals.quiet {
        output::progress::turn_off();
    }
    let globals = &arguments.globals;
    match globals
        .check()
        .and_then(|()| arguments.command.run(globals))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (kind, code) = exit::kind(&error);
            report(
                &format!("{error:#}"),
                kind,
                code,
                arguments.globals.output(),
            );
            ExitCode::from(code)
        }
    }
}

/// Parses the command line. Prints help, or what is wrong, and returns the exit code.
fn parsed() -> Result<Arguments, ExitCode> {
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| {
        let format = help::requested_format();
        if error.use_stderr() && format.is_structured() {
            let message = error.render().to_string();
            let message = message.trim().trim_start_matches("error: ");
            report(message, "usage", exit::USAGE, format);
        } else {
            // A closed pipe is not an error.
            let _ = error.print();
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE))
    })
}

/// Prints an error: a sentence for users, an object for programs.
fn report(message: &str, kind: &str, code: u8, output: OutputFormat) {
    if !output.is_structured() {
        eprintln!("steadfast: {message}");
        return;
    }
    // The code of the error's page comes before the kind of exit.
    let page = message.split_once(": ").map(|(first, _)| first);
    let page = page.filter(|first| first.starts_with("STF-") && !first.contains(' '));
    let error = json!({"error": {
        "code": page.unwrap_or(kind), "message": message, "exit_code": code,
    }});
    eprintln!("{error}");
}
