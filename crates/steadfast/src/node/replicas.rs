//! Collections on the node's own partitions.
//!
//! A replica belongs to one tenure of its partition. When the partition was taken
//! again, the next use opens a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_collections::{Options, Replica};
use steadfast_core::clock::Clock;
use steadfast_core::id::{Epoch, Partition};
use steadfast_partition::{Error as PartitionError, ErrorKind, Runtime};
use tokio::sync::Mutex;

use super::error::Result;

/// The replicas that are open.
#[derive(Default)]
pub(super) struct Replicas {
    open: Mutex<BTreeMap<Partition, (Epoch, Replica)>>,
}

impl Replicas {
    /// Closes all of them.
    pub(super) async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        for (_, replica) in open.into_values() {
            replica.close();
        }
    }

    /// The replica of a partition, as it is owned now.
    pub(super) async fn get(
        &self,
        runtime: &Runtime,
        clock: &Arc<dyn Clock>,
        index: u16,
    ) -> Result<Replica> {
        let partition = Partition::new(runtime.space().number, index);
        let Some(door) = runtime.router().door(partition) else {
            return Err(PartitionError::new(ErrorKind::NotOwner { partition }).into());
        };
        let ledger = door.ledger();
        let mut open = self.open.lock().await;
        if let Some((epoch, replica)) = open.get(&partition)
            && *epoch == ledger.epoch()
        {
            return Ok(replica.clone());
        }
        let options = Options {
            clock: Arc::clone(clock),
            ..Options::default()
        };
        let replica = Replica::primary(ledger.clone(), options).await?;
        let former = open.insert(partition, (ledger.epoch(), replica.clone()));
        if let Some((_, former)) = former {
            former.close();
        }
        Ok(replica)
    }
}
