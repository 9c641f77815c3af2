//! Load generators and peers behind `steadfast bench`.
//!
//! Every area measures the machine's limit, a peer where one is installed, and
//! Steadfast in one run, several times in turn, and reports medians: machines are
//! noisy, and only what was measured side by side can be compared.

mod child;
pub mod cluster;
pub mod collections;
mod counting;
mod disk;
pub mod durable;
pub mod events;
pub mod jobs;
mod machine;
pub mod postgres;
mod process;
pub mod realtime;
mod redis;
pub mod report;
pub mod runtime;
mod samples;
mod stopwatch;
pub mod storage;
mod writers;
