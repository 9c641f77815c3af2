//! Walks over all jobs of a collection.
//!
//! It reads durable rows outside the owner loop and sends each job a command, which is
//! idempotent.

use std::ops::Bound;

use bytes::Bytes;
use futures_util::future::try_join_all;
use steadfast_core::limits;
use steadfast_partition::{Address, Error, Mailbox, RemoteReader, TableRow};

use crate::collection::Sweep;
use crate::command::{JobCommand, JobResponse};
use crate::id::{CollectionId, KIND};
use crate::rows::JOBS;

/// Applies a sweep to every job of a collection, and then completes it.
pub(crate) async fn sweep(door: &Mailbox, id: &CollectionId, sweep: Sweep) -> Result<(), Error> {
    let window = RemoteReader::from(door.clone());
    let collection = id.key();
    let mut behind = None;
    loop {
        let rows = page(&window, &collection, behind.as_ref(), limits::SWEEP_JOBS).await?;
        let Some(last) = rows.last() else {
            break;
        };
        behind = Some(last.key.clone());
        let told = rows.iter().map(|row| {
            let name = row.key.slice(collection.len() + 1..);
            let to = Address::new(KIND, collection.clone(), name);
            door.call::<JobCommand, JobResponse>(to, JobCommand::ApplySweep(sweep.kind))
        });
        try_join_all(told).await?;
    }
    let ended = JobCommand::SweepFinished(sweep.number);
    door.call::<JobCommand, JobResponse>(id.address(), ended)
        .await
        .map(drop)
}

/// Definitions of a collection's jobs in the order of their names.
pub(crate) async fn page(
    window: &RemoteReader,
    collection: &str,
    behind: Option<&Bytes>,
    limit: usize,
) -> Result<Vec<TableRow>, Error> {
    let (first, last) = borders(collection.as_bytes());
    let from = match behind {
        Some(behind) => Bound::Excluded(behind.clone()),
        None => Bound::Excluded(first),
    };
    let to = Bound::Excluded(last);
    window.rows(JOBS, from, to, limit).await
}

/// The bounds of all keys that continue `key`.
pub(crate) fn borders(key: &[u8]) -> (Bytes, Bytes) {
    let with = |end: u8| {
        let mut border = key.to_vec();
        border.push(end);
        border.into()
    };
    (with(0), with(1))
}
