//! Tests of the binary.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../../../steadfast/tests/bank/mod.rs"]
mod bank;
#[path = "../frozen/mod.rs"]
mod frozen;
#[path = "../running/mod.rs"]
mod running;

mod backup_command;
mod blob_command;
mod bounds;
mod client_commands;
mod command;
mod dead_letter_command;
mod drain;
mod durable_bank;
mod durable_commands;
mod eventhub_commands;
mod group_command;
mod http;
mod inspect_command;
mod job_command;
mod job_publish;
mod keys;
mod lists;
mod refusals;
mod reload;
mod running_state;
mod server_frozen;
mod signalr_kills;
mod strings;
mod systemd;
mod telemetry;
mod transactions;
mod virtual_time;
