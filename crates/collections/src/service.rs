//! Services: a name, a scheme, durable or volatile.
//!
//! The definition is a durable row in the store partition of the first partition, in the
//! main space also for a volatile service, and never changes. A partition of a volatile
//! service keeps, in its store partition of the volatile space, the number of its
//! incarnation; the store partition of the same index in the main space keeps the same
//! number durably, and has the same owner. If they differ, the state is lost: the partition
//! gets a new incarnation, and its owner's `on_data_loss` runs before it sees the partition
//! empty. The last number that was reported to an owner is stored with
//! it, so a loss that a reader detects first is still reported to the next owner.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_storage::engine::{Scan, TableRow};
use steadfast_storage::{Ledger, Visibility, Writes};

use crate::error::{Error, ErrorKind, Result};
use crate::replica::{Replica, ReplicaRole};
use crate::scheme::{PartitionKey, Scheme, partition_of};
use crate::state::State;
use crate::tables;

/// The definition of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDefinition {
    pub name: String,
    pub scheme: Scheme,
    /// In memory only, lost with the process; without concurrent queues and backups.
    pub is_volatile: bool,
}

/// Callbacks to the owner of a partition.
///
/// The order is `open`, any number of `change_role`, then `close` or `abort`.
pub trait Lifecycle: Send + Sync {
    /// The partition is about to be used.
    fn open(&self, _state: &State) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The replica has another role now. Writes were revoked before a demotion.
    fn change_role(&self, _role: ReplicaRole) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// All state of the partition is lost; this is its new incarnation. Returns whether the
    /// state was restored.
    fn on_data_loss(
        &self,
        _state: &State,
        _incarnation: u64,
    ) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(false))
    }

    /// The partition is released in order.
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The partition is released at once, without waiting.
    fn abort(&self) {}
}

/// A partition that is open here.
pub struct ServicePartitionState {
    pub state: State,
    /// Changes whenever the partition's state was lost.
    pub incarnation: u64,
    /// Whether the state was lost since the partition was last open.
    pub was_lost: bool,
}

/// The format of a definition.
const FORMAT: u8 = 1;

impl ServiceDefinition {
    /// Creates the service, or finds it as it was created. `home` is the ledger of
    /// the store partition of partition 0 in the main space.
    pub async fn create(home: &Ledger, service: ServiceDefinition) -> Result<ServiceDefinition> {
        let name = &service.name;
        let is_bad = name.is_empty() || name.contains(char::is_control);
        if is_bad || name.len() > limits::NAME_BYTES {
            return refuse(
                name,
                "its name is empty, too long or has control characters",
            );
        }
        service.scheme.check(name)?;
        match Self::find(home, name).await? {
            None => {}
            Some(known) if known == service => return Ok(known),
            Some(known) if known.is_volatile != service.is_volatile => {
                return refuse(
                    name,
                    "a durable service cannot become volatile, nor the other way round; \
                     delete it and create it anew",
                );
            }
            Some(_) => return refuse(name, "its scheme cannot be changed after its creation"),
        }
        let mut writes = Writes::new();
        writes.put(tables::SERVICES, name.as_bytes(), &service.encode());
        commit(home, writes).await?;
        Ok(service)
    }

    /// The service of this name.
    pub async fn find(home: &Ledger, name: &str) -> Result<Option<ServiceDefinition>> {
        let row = home.get(tables::SERVICES, name.as_bytes(), Visibility::Durable);
        let row = row.await.map_err(|error| Error::storage(error, 0))?;
        let key = Bytes::copy_from_slice(name.as_bytes());
        row.map(|value| Self::from_row(&TableRow { key, value }))
            .transpose()
    }

    /// The rows of the services of a partition of the main space whose names follow `after`:
    /// their table, and a range of `limit` at most.
    pub fn rows_after(after: &str, limit: usize) -> (TableId, Scan) {
        let range = Scan {
            from: Bound::Excluded(Bytes::copy_from_slice(after.as_bytes())),
            to: Bound::Unbounded,
            limit,
        };
        (tables::SERVICES, range)
    }

    /// The service of such a row.
    pub fn from_row(row: &TableRow) -> Result<ServiceDefinition> {
        let name = String::from_utf8_lossy(&row.key).into_owned();
        let value = ByteReader::new(row.value.clone());
        Self::decode(&name, value).map_err(|error| {
            let what = format!("the definition of service {name}");
            Error::caused(ErrorKind::Malformed { what }, error)
        })
    }

    /// The partition that holds a key.
    pub fn partition(&self, key: PartitionKey<'_>) -> Result<u32> {
        let partition = self.scheme.partition(key);
        partition.ok_or_else(|| {
            Error::new(ErrorKind::InvalidService {
                service: self.name.clone(),
                why: format!("it has no partition for {key:?}; see its scheme"),
            })
        })
    }

    /// The index of the store partition, of `stores`, in which a partition of it lives.
    pub fn store_partition(&self, partition: u32, stores: u16) -> u16 {
        partition_of(&self.name, partition, stores)
    }

    /// Opens a partition for its owner: `replica` is that of its store partition, in the
    /// volatile space if the service is volatile, and `home` the one of the same index in
    /// the main space. Returns whether state was lost, after `on_data_loss` has run; that
    /// callback runs again if it fails or the process dies during it.
    pub async fn open(
        &self,
        home: &Ledger,
        replica: &Replica,
        partition: u32,
        life: &impl Lifecycle,
    ) -> Result<ServicePartitionState> {
        let mut opened = self.begin(replica, partition)?;
        if self.is_volatile {
            let (key, here) = (self.scope(partition), replica.ledger()?);
            let found = number(here, &key).await?;
            let mut now = incarnation(home, &key, found).await?;
            if now.told != now.number {
                life.on_data_loss(&opened.state, now.number).await?;
                now.told = now.number;
                opened.was_lost = true;
                now.write(home, &key).await?;
            }
            now.settle(here, &key, found).await?;
            opened.incarnation = now.number;
        }
        life.open(&opened.state).await?;
        life.change_role(replica.role()).await?;
        Ok(opened)
    }

    /// The same for a reader that is not its owner, without callbacks: the next owner that
    /// opens it gets them. Returns whether this call found a loss.
    pub async fn open_without_lifecycle(
        &self,
        home: &Ledger,
        replica: &Replica,
        partition: u32,
    ) -> Result<ServicePartitionState> {
        let mut opened = self.begin(replica, partition)?;
        if self.is_volatile {
            let (key, here) = (self.scope(partition), replica.ledger()?);
            let found = number(here, &key).await?;
            let now = incarnation(home, &key, found).await?;
            opened.was_lost = now.number > 1 && now.number != found;
            now.settle(here, &key, found).await?;
            opened.incarnation = now.number;
        }
        Ok(opened)
    }

    fn begin(&self, replica: &Replica, partition: u32) -> Result<ServicePartitionState> {
        Ok(ServicePartitionState {
            state: self.state(replica, partition)?,
            incarnation: 0,
            was_lost: false,
        })
    }

    /// The collections of a partition, without callbacks: for reading on another node.
    pub fn state(&self, replica: &Replica, partition: u32) -> Result<State> {
        if partition >= self.scheme.partitions() {
            return refuse(&self.name, "it has no such partition");
        }
        if self.is_volatile != replica.is_volatile() {
            return refuse(&self.name, "the replica is of the wrong space");
        }
        Ok(replica.scope(&self.scope(partition)))
    }

    fn scope(&self, partition: u32) -> String {
        format!("{}#{partition}", self.name)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, u8::from(self.is_volatile)];
        self.scheme.encode(&mut out);
        out
    }

    fn decode(name: &str, mut reader: ByteReader) -> std::result::Result<Self, DecodeError> {
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        Ok(Self {
            name: name.to_owned(),
            is_volatile: reader.byte()? != 0,
            scheme: Scheme::decode(&mut reader)?,
        })
    }
}

/// The incarnation of a partition, as recorded durably.
struct Incarnation {
    number: u64,
    /// The last one that was reported to an owner, or that it began with.
    told: u64,
}

/// The incarnation of a partition whose volatile store partition has `found`: a new one if there was
/// none, or if `found` is not the last one.
async fn incarnation(home: &Ledger, key: &str, found: u64) -> Result<Incarnation> {
    let known = numbers(home, key).await?;
    let (number, told) = match known[..] {
        [] => (0, 1),
        // Written before reports were recorded: every loss was reported.
        [number] => (number, number),
        [number, told, ..] => (number, told),
    };
    if number == found && number != 0 {
        return Ok(Incarnation { number, told });
    }
    let now = Incarnation {
        number: number + 1,
        told,
    };
    // First in the durable partition: a crash from here on is another loss.
    now.write(home, key).await?;
    Ok(now)
}

impl Incarnation {
    async fn write(&self, home: &Ledger, key: &str) -> Result<()> {
        put_numbers(home, key, &[self.number, self.told]).await
    }

    /// Records it in the partition that holds the state.
    async fn settle(&self, here: &Ledger, key: &str, found: u64) -> Result<()> {
        if found == self.number {
            Ok(())
        } else {
            put_numbers(here, key, &[self.number]).await
        }
    }
}

async fn put_numbers(ledger: &Ledger, key: &str, numbers: &[u64]) -> Result<()> {
    let mut writes = Writes::new();
    let mut value = Vec::new();
    for number in numbers {
        put_varint(&mut value, *number);
    }
    writes.put(tables::INCARNATIONS, key.as_bytes(), &value);
    commit(ledger, writes).await
}

/// The incarnation whose state this partition holds; 0 if there is none.
async fn number(here: &Ledger, key: &str) -> Result<u64> {
    Ok(numbers(here, key).await?.first().copied().unwrap_or(0))
}

async fn numbers(ledger: &Ledger, key: &str) -> Result<Vec<u64>> {
    let row = ledger.get(tables::INCARNATIONS, key.as_bytes(), Visibility::Durable);
    let row = row.await.map_err(|error| Error::storage(error, 0))?;
    let mut reader = ByteReader::new(row.unwrap_or_default());
    let mut numbers = Vec::new();
    while !reader.is_empty() {
        let what = "an incarnation".to_owned();
        let number = reader.varint();
        let number = number.map_err(|error| Error::caused(ErrorKind::Malformed { what }, error))?;
        numbers.push(number);
    }
    Ok(numbers)
}

async fn commit(ledger: &Ledger, writes: Writes) -> Result<()> {
    let done = ledger.commit(writes).await;
    done.map(drop).map_err(|error| Error::storage(error, 0))
}

fn refuse<T>(service: &str, why: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidService {
        service: service.to_owned(),
        why: why.to_owned(),
    }))
}
