//! Opening all databases of a cluster, and none but those.
//!
//! A new cluster is spread over all databases that the address names. From then on
//! they must be named completely and in order. A database belongs to one cluster:
//! its own record names it, also when it is opened alone.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_storage::engine::{CasOutcome, Engine, Record};
use steadfast_storage::{Error, Result};

use super::map::{CLAIM, MAP, ShardMap, ShardMapClaim};
use crate::cas::SHARD_RECORDS;
use crate::engine::PostgresEngine;
use crate::error::ErrorKind;
use crate::options::Options;

/// What may happen to databases that are not in the map yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// They are refused.
    Refused,
    /// They join at the end.
    Welcome,
}

/// Attempts while another node changes the map.
const ATTEMPTS: u32 = 4;

/// Opens what an address names; answers the databases, the map and its version.
pub(super) async fn open(
    options: &Options,
    growth: Growth,
) -> Result<(Vec<Arc<PostgresEngine>>, ShardMap, u64)> {
    let all = options.each();
    if all.len() > limits::SHARDS {
        let what = format!(
            "it names {} databases, the limit is {}",
            all.len(),
            limits::SHARDS
        );
        return Err(Error::new(ErrorKind::BadAddress { what }));
    }
    let mut engines = Vec::new();
    for one in all {
        engines.push(Arc::new(Box::pin(PostgresEngine::open(one)).await?));
    }
    expect_different(&engines)?;
    for _ in 0..ATTEMPTS {
        if let Some((map, version)) = settle(&engines, growth).await? {
            return Ok((engines, map, version));
        }
    }
    let doing = "agree on the shard map";
    Err(Error::new(ErrorKind::Database { doing }))
}

/// Refuses one database in two places.
fn expect_different(engines: &[Arc<PostgresEngine>]) -> Result<()> {
    for (place, engine) in engines.iter().enumerate() {
        let before = &engines[..place];
        let twin = before
            .iter()
            .position(|own| own.cluster() == engine.cluster());
        if let Some(twin) = twin {
            let what = format!("it is the one at place {twin}");
            return Err(Error::new(ErrorKind::ForeignShard { place, what }));
        }
    }
    Ok(())
}

/// The map that fits these databases; `None` if another node changed it meanwhile.
async fn settle(
    engines: &[Arc<PostgresEngine>],
    growth: Growth,
) -> Result<Option<(ShardMap, u64)>> {
    let first = &engines[0];
    let identities: Vec<_> = engines.iter().map(|e| e.cluster().to_string()).collect();
    if let Some(claim) = claim(first).await? {
        let (place, belongs) = (0, usize::from(claim.place));
        return Err(Error::new(ErrorKind::ShardOrder { place, belongs }));
    }
    let found = record(first, MAP).await?;
    let version = found.as_ref().map_or(0, |record| record.version);
    let is_welcome = growth == Growth::Welcome;
    let mut map = match found {
        Some(record) => ShardMap::decode(record.value).map_err(|_| malformed())?,
        // One database needs no map.
        None if engines.len() == 1 => return Ok(Some((ShardMap::new(1, identities), 0))),
        None if is_new(first).await? => ShardMap::new(engines.len(), Vec::new()),
        // Another node has just made it.
        None if record(first, MAP).await?.is_some() => return Ok(None),
        None => ShardMap::new(1, identities[..1].to_vec()),
    };
    let is_made = map.shards.is_empty();
    map.check(&identities)?;
    if map.shards.len() == identities.len() {
        return Ok(Some((map, version)));
    }
    if !is_made && !is_welcome {
        let (shards, given) = (map.shards.len(), identities.len());
        return Err(Error::new(ErrorKind::ShardSurplus { shards, given }));
    }
    let known = map.shards.len().max(1);
    for (place, engine) in engines.iter().enumerate().skip(known) {
        take(engine, first.cluster(), place).await?;
        engine.expect_sharding().await?;
    }
    first.expect_sharding().await?;
    map.shards = identities;
    match first.cas(MAP, version, map.encode()).await? {
        CasOutcome::Done(version) => Ok(Some((map, version))),
        CasOutcome::Conflict { .. } => Ok(None),
    }
}

/// Makes a database a shard of this cluster, unless it is something else.
async fn take(engine: &PostgresEngine, cluster: &str, place: usize) -> Result<()> {
    let own = ShardMapClaim {
        cluster: cluster.to_string(),
        place: place as u16,
    };
    let foreign = |what: &str| {
        let what = what.to_string();
        Err(Error::new(ErrorKind::ForeignShard { place, what }))
    };
    let found = claim(engine).await?;
    match &found {
        Some(claim) if *claim == own => return Ok(()),
        Some(claim) if claim.cluster == own.cluster => {
            let belongs = usize::from(claim.place);
            return Err(Error::new(ErrorKind::ShardOrder { place, belongs }));
        }
        Some(_) => return foreign("it is part of another cluster"),
        None if !is_new(engine).await? => return foreign("it has state of its own"),
        None => {}
    }
    match engine.cas(CLAIM, 0, own.encode()).await? {
        CasOutcome::Done(_) => Ok(()),
        CasOutcome::Conflict { value, .. } => match value.map(ShardMapClaim::decode) {
            Some(Ok(claim)) if claim == own => Ok(()),
            _ => foreign("it became part of another cluster just now"),
        },
    }
}

/// Whether a database holds nothing yet.
async fn is_new(engine: &PostgresEngine) -> Result<bool> {
    let records = engine.list("").await?;
    let is_free = |record: &Record| record.key == CLAIM;
    Ok(records.iter().all(is_free) && engine.partitions().await?.is_empty())
}

async fn claim(engine: &PostgresEngine) -> Result<Option<ShardMapClaim>> {
    let Some(record) = record(engine, CLAIM).await? else {
        return Ok(None);
    };
    ShardMapClaim::decode(record.value)
        .map(Some)
        .map_err(|_| malformed())
}

async fn record(engine: &PostgresEngine, key: &str) -> Result<Option<Record>> {
    let records = engine.list(SHARD_RECORDS).await?;
    Ok(records.into_iter().find(|record| record.key == key))
}

fn malformed() -> Error {
    let doing = "give a shard map that can be read";
    Error::new(ErrorKind::Database { doing })
}
