//! The engine on PostgreSQL, of one database or several.

use std::sync::Arc;

use serde_json::{Value, json};
pub(super) use steadfast_backup::take_running;
use steadfast_storage::Engine;
pub(super) use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{Options, ScrubReport};

use super::error::Result;
use crate::config::Config;

/// A configuration with the engine postgres can be used.
pub(super) fn check(_: &Config) -> Result<()> {
    Ok(())
}

/// Opens the databases; returns them as an engine, and as what they are.
pub(super) async fn open(config: &Config) -> Result<(Arc<dyn Engine>, Arc<ShardedEngine>)> {
    let url = config.postgres_url.clone().unwrap_or_default();
    let shards = Arc::new(ShardedEngine::open(&Options::new(url)).await?);
    Ok((Arc::clone(&shards) as _, shards))
}

/// Verifies all replicas; the findings in the form of the REST interface.
pub(super) async fn scrub(shards: &ShardedEngine) -> Value {
    let found = shards.scrub().await;
    let replica = |(shard, replica): &(u16, ScrubReport)| {
        json!({
            "shard": shard,
            "server": replica.server,
            "is_primary": replica.is_primary,
            "partitions": replica.partitions,
            "checksum_failures": replica.checksum_failures,
            "findings": replica.findings,
        })
    };
    json!({"replicas": found.iter().map(replica).collect::<Vec<_>>()})
}
