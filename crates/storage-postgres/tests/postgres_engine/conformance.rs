//! The questions of the seam, asked of PostgreSQL.
//!
//! All tests share one server without standbys; each has its own schema.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_core::clock::VirtualClock;
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};

use crate::seam::{Subject, suite};

static NEXT: AtomicU32 = AtomicU32::new(0);

async fn postgres() -> Subject {
    let url = tokio::task::spawn_blocking(|| PostgresServer::shared().url("postgres"));
    let url = url.await.unwrap();
    let clock = VirtualClock::default();
    let options = Options {
        durability: Durability::Single,
        schema: format!("seam_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        segment: Duration::from_millis(50),
        lease_clock: Some(Arc::new(clock.clone())),
        ..Options::new(url)
    };
    Subject {
        engine: Arc::new(PostgresEngine::open(options).await.unwrap()),
        clock,
        _folder: None,
    }
}

/// Two databases; the partitions of the questions are in different ones.
async fn shards() -> Subject {
    let urls = tokio::task::spawn_blocking(|| {
        let server = PostgresServer::shared();
        static SECOND: OnceLock<()> = OnceLock::new();
        SECOND.get_or_init(|| drop(server.sql("create database second").unwrap()));
        let url = server.url("postgres");
        let (place, _) = url.rsplit_once('/').unwrap();
        format!("{url} {place}/second")
    });
    let clock = VirtualClock::default();
    let options = Options {
        durability: Durability::Single,
        schema: format!("shard_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        segment: Duration::from_millis(50),
        lease_clock: Some(Arc::new(clock.clone())),
        ..Options::new(urls.await.unwrap())
    };
    Subject {
        engine: Arc::new(ShardedEngine::open(&options).await.unwrap()),
        clock,
        _folder: None,
    }
}

suite!(postgres shards);
