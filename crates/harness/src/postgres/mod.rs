//! PostgreSQL servers that are killed, frozen and promoted.

mod cluster;
mod damage;
mod folder;
mod manager;
mod programs;
mod server;
mod starter;

pub use cluster::PostgresCluster;
pub use damage::{cut_in_half, flip_byte};
pub use manager::Manager;
pub use server::PostgresServer;
