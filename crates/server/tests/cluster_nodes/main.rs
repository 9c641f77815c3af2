//! Several nodes of the binary: joins, kills, stalls.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../running/mod.rs"]
mod running;

mod bench;
mod clients;
mod cluster_bank;
mod cluster_regions;
mod epochs;
mod faces;
mod isolated;
mod jobs;
mod life;
mod metrics;
mod nodes;
mod realtime;
mod recipe;
mod refusals;
mod regions;
mod shards;
mod stalled;
mod takeover;
mod volatile;
