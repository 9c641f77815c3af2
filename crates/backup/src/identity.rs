//! The identity of one life of a store.
//!
//! A store gets a random number with its first backup and another one with every
//! restore. After a restore the same LSNs and sequence numbers are given again to
//! other writes, so only backups of one life may build on one another.

use bytes::Bytes;
use steadfast_storage::Result;
use steadfast_storage::engine::{CasOutcome, Engine, Record};

/// The cluster record that holds it.
pub(crate) const RECORD: &str = "store/life";

/// The life that an engine is in; drawn now if it has none yet.
pub(crate) async fn find_or_draw(engine: &dyn Engine) -> Result<String> {
    if let Some(life) = find(engine).await? {
        return Ok(life);
    }
    let life = random();
    match engine.cas(RECORD, 0, life.clone().into()).await? {
        CasOutcome::Done(_) => Ok(life),
        CasOutcome::Conflict { value, .. } => Ok(value.map_or(life, |value| text(&value))),
    }
}

/// The life that an engine is in, if it has been backed up or restored.
pub(crate) async fn find(engine: &dyn Engine) -> Result<Option<String>> {
    let records = engine.list(RECORD).await?;
    let own = |record: &Record| record.key == RECORD;
    Ok(records
        .into_iter()
        .find(own)
        .map(|record| text(&record.value)))
}

/// A random number, unique in practice.
pub(crate) fn random() -> String {
    format!("{:032x}", fastrand::u128(..))
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}
