//! Small records that have one writer.

use bytes::Bytes;
use steadfast_storage::Result;
use steadfast_storage::engine::{CasOutcome, Engine};

/// A record's value, if there is one.
pub async fn read_record(engine: &dyn Engine, key: &str) -> Result<Option<Bytes>> {
    let found = engine.list(key).await?;
    let mut found = found.into_iter().filter(|record| record.key == key);
    Ok(found.next().map(|record| record.value))
}

/// Sets a record, whatever it was.
pub async fn write_record(engine: &dyn Engine, key: &str, value: Bytes) -> Result<()> {
    let found = engine.list(key).await?;
    let found = found.iter().find(|record| record.key == key);
    let mut version = found.map_or(0, |record| record.version);
    loop {
        match engine.cas(key, version, value.clone()).await? {
            CasOutcome::Done(_) => return Ok(()),
            CasOutcome::Conflict { version: found, .. } => version = found,
        }
    }
}
