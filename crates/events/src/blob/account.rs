//! The API of accounts: what they take, and room for more.
//!
//! A partition that has no room for a write claims a larger allowance from the account's
//! home. If the limit is divided up, the other partitions first withdraw what they do
//! not use, so a write is refused only if the account as a whole has no room.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::error::Code;
use steadfast_core::id::{Partition, TableId};
use steadfast_core::limits::{BLOB_CLAIMS, BLOB_ENTRY_BYTES, SCAN_ROWS};
use steadfast_partition::RemoteReader;

use crate::blob::allowance;
use crate::blob::block::UploadRecord;
use crate::blob::command::{BlobCommand, BlobResponse};
use crate::blob::key::list_key;
use crate::blob::record::{Blob, BlockList, Container};
use crate::blob::service::COUNTER;
use crate::blob::store::{Blobs, address};
use crate::blob::usage::COUNT_STATE;
use crate::blob::usage_record::{
    AccountRecord, CountState, CountedContainer, PartitionAllowance, Usage, account_of,
    blocks_bytes,
};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::{
    self, ACCOUNTS, BLOBS, BLOCK_LISTS, BLOCKS, CONTAINER_USAGE, CONTAINERS, UPLOADS,
    account_address,
};

/// Rows of blobs that one page of a scan holds.
const PAGE: usize = SCAN_ROWS / 10;

/// The code of the partition crate for a command that a node cannot decode.
const UNKNOWN_COMMAND: Code = Code("STF-4006");

/// What an account takes, in all its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountUsage {
    pub account: String,
    /// Blobs, uncommitted blocks and unfinished uploads; a blob and a block count
    /// `limits::BLOB_ENTRY_BYTES` beside their bodies.
    pub bytes: u64,
    pub blobs: u64,
    /// `None` without a limit.
    pub limit: Option<u64>,
}

/// What a container takes, as [`AccountUsage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    pub bytes: u64,
    pub blobs: u64,
}

impl Blobs {
    /// Rejects a body for which the account has no room: one that replaces a blob, or a
    /// block of it. `uploaded` bytes of it are counted already.
    pub async fn check_room(
        &self,
        container: &str,
        name: &str,
        block: Option<&str>,
        (length, uploaded): (u64, u64),
    ) -> Result<()> {
        let command = BlobCommand::CheckRoom {
            name: name.to_owned(),
            block: block.map(str::to_owned),
            length,
            uploaded,
        };
        match self.call(container, command).await {
            // A node of the previous version, which has no limit, serves the partition.
            Err(error) if error.code() == UNKNOWN_COMMAND => Ok(()),
            checked => checked.map(drop),
        }
    }

    /// What all accounts take, by name.
    pub async fn accounts(&self) -> Result<Vec<AccountUsage>> {
        let mut found: BTreeMap<String, Usage> = BTreeMap::new();
        for partition in self.inner.space.all() {
            self.count(partition).await?;
            let reader = self.inner.router.reader(partition);
            let mut last = None;
            while let Some(page) = page::<AccountRecord>(&reader, ACCOUNTS, &mut last).await? {
                for (key, record) in page {
                    let usage = found.entry(text(&key)).or_default();
                    *usage = usage.plus(record.usage);
                }
            }
        }
        let limit = Some(self.account_limit().await?).filter(|limit| *limit != u64::MAX);
        let shown = found.into_iter().map(|(account, usage)| AccountUsage {
            account,
            bytes: usage.total(),
            blobs: usage.blobs,
            limit,
        });
        Ok(shown.collect())
    }

    /// What a container takes.
    pub async fn container_usage(
        &self,
        name: &str,
        container: &Container,
    ) -> Result<ContainerUsage> {
        let partition = self.inner.space.partition(&address(name));
        self.count(partition).await?;
        let reader = self.inner.router.reader(partition);
        let key = container.id.to_be_bytes();
        let usage: Usage = row(&reader, CONTAINER_USAGE, &key).await?;
        Ok(ContainerUsage {
            bytes: usage.total(),
            blobs: usage.blobs,
        })
    }

    /// Runs a command that has found no room, after claims of more.
    pub(super) async fn call_with_room(
        &self,
        container: &str,
        command: &BlobCommand,
    ) -> Result<BlobResponse> {
        let account = text(account_of(container.as_bytes()));
        let _lock = self.inner.claims.lock(&account).await;
        let partition = self.inner.space.partition(&address(container));
        let mut is_all = false;
        for _ in 0..BLOB_CLAIMS {
            match self.send(container, command.clone()).await {
                Err(error) if error.kind() == ErrorKind::AccountFull && !is_all => {
                    self.count(partition).await?;
                    is_all = !self.claim(&account, partition, command.growth()).await?;
                }
                done => return done,
            }
        }
        let words = "other writers use up the room of the account; retry";
        Err(Error::new(ErrorKind::Unavailable, words))
    }

    /// Claims an allowance with room for `growth` bytes. Returns whether it has that room; if
    /// not, it is all that the account has.
    async fn claim(&self, account: &str, partition: Partition, growth: u64) -> Result<bool> {
        let own = self.withdraw(account, partition, 0).await?;
        let bytes = own.usage.total().saturating_add(growth);
        let allowance = own.allowance;
        let mut withdrawn = vec![PartitionAllowance {
            partition: partition.0,
            allowance,
        }];
        let mut is_complete = false;
        loop {
            let command = BlobCommand::ClaimAllowance {
                partition: partition.0,
                bytes,
                withdrawn: withdrawn.clone(),
                is_complete,
            };
            let home = account_address(account);
            let allowances = match self.inner.containers.call(home, command).await? {
                BlobResponse::Allowances(allowances) => allowances,
                _ => return Err(Error::damaged("a reply")),
            };
            if let Some(allowances) = &allowances {
                let allowance = allowance::of(allowances, partition.0)?;
                if allowance.bytes >= bytes || is_complete {
                    let command = BlobCommand::SetAllowance { allowance };
                    self.call_in(account, partition, command).await?;
                    return Ok(allowance.bytes >= bytes);
                }
            }
            let others = self.withdraw_others(account, partition, allowances).await?;
            withdrawn.extend(others);
            is_complete = true;
        }
    }

    /// The allowances of all other partitions after they gave up what they do not use; without
    /// a list of the home, of all that have blobs of the account.
    async fn withdraw_others(
        &self,
        account: &str,
        own: Partition,
        known: Option<Vec<PartitionAllowance>>,
    ) -> Result<Vec<PartitionAllowance>> {
        let known = match known {
            Some(known) => known,
            None => self.occupied(account).await?,
        };
        let mut withdrawn = Vec::new();
        let others = known.into_iter();
        for other in others.filter(|other| other.partition != own.0 && other.allowance.bytes > 0) {
            let partition = Partition(other.partition);
            let version = other.allowance.version;
            let record = self.withdraw(account, partition, version).await?;
            withdrawn.push(PartitionAllowance {
                allowance: record.allowance,
                ..other
            });
        }
        Ok(withdrawn)
    }

    /// The partitions that have blobs of an account, for an account whose home has no list.
    async fn occupied(&self, account: &str) -> Result<Vec<PartitionAllowance>> {
        let mut found = Vec::new();
        for partition in self.inner.space.all() {
            self.count(partition).await?;
            let reader = self.inner.router.reader(partition);
            let record: AccountRecord = row(&reader, ACCOUNTS, account.as_bytes()).await?;
            if record != AccountRecord::default() {
                let mut allowance = record.allowance;
                allowance.bytes = allowance.bytes.max(record.usage.bytes);
                found.push(PartitionAllowance {
                    partition: partition.0,
                    allowance,
                });
            }
        }
        Ok(found)
    }

    async fn account_limit(&self) -> Result<u64> {
        let to = account_address("");
        match self.inner.containers.call(to, BlobCommand::Limit).await? {
            BlobResponse::Limit(limit) => Ok(limit),
            _ => Err(Error::damaged("a reply")),
        }
    }

    async fn withdraw(
        &self,
        account: &str,
        partition: Partition,
        version: u64,
    ) -> Result<AccountRecord> {
        let command = BlobCommand::WithdrawAllowance { version };
        match self.call_in(account, partition, command).await? {
            BlobResponse::Account(record) => Ok(record),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// Calls an account in one partition.
    async fn call_in(
        &self,
        account: &str,
        partition: Partition,
        command: BlobCommand,
    ) -> Result<BlobResponse> {
        let (containers, to) = (&self.inner.containers, account_address(account));
        Ok(containers.call_in(partition, to, command).await?)
    }

    /// Counts a partition that an earlier version has written.
    async fn count(&self, partition: Partition) -> Result<()> {
        let mut attempts = 0;
        loop {
            let reader = self.inner.router.reader(partition);
            let state: CountState = row(&reader, CONTAINER_USAGE, COUNT_STATE).await?;
            if state.is_counted || reader.row(CONTAINERS, COUNTER).await?.is_none() {
                return Ok(());
            }
            let command = BlobCommand::SetCounts {
                changes: state.changes,
                containers: scan(&reader).await?,
            };
            match self.call_in("", partition, command).await {
                // A blob was removed during the scan.
                Err(error) if error.is_passing() && attempts < BLOB_CLAIMS => attempts += 1,
                done => return done.map(drop),
            }
        }
    }
}

/// What all containers of a partition take.
async fn scan(reader: &RemoteReader) -> Result<Vec<CountedContainer>> {
    let mut found = BTreeMap::new();
    let mut last = Some(Bytes::from_static(COUNTER));
    while let Some(page) = page::<Container>(reader, CONTAINERS, &mut last).await? {
        for (key, container) in page {
            let counted = CountedContainer {
                name: text(&key),
                id: container.id,
                usage: Usage::default(),
            };
            found.insert(container.id, counted);
        }
    }
    // What a removed container has left behind counts for no account.
    let id = |key: &Bytes| key.first_chunk().map_or(0, |id| u64::from_be_bytes(*id));
    let mut last = None;
    while let Some(page) = page::<Blob>(reader, BLOBS, &mut last).await? {
        for (key, blob) in page {
            if let Some(counted) = found.get_mut(&id(&key)) {
                let usage = &mut counted.usage;
                usage.blobs += 1;
                usage.bytes += BLOB_ENTRY_BYTES + body_bytes(reader, counted.id, &blob).await?;
            }
        }
    }
    let mut last = None;
    while let Some(page) = page::<BlockList>(reader, BLOCKS, &mut last).await? {
        for (key, list) in page {
            if let Some(counted) = found.get_mut(&id(&key)) {
                counted.usage.bytes += blocks_bytes(&list.blocks);
            }
        }
    }
    let mut last = None;
    while let Some(page) = page::<UploadRecord>(reader, UPLOADS, &mut last).await? {
        for (_, upload) in page {
            if let Some(counted) = found.get_mut(&upload.container) {
                counted.usage.uploads += upload.length;
            }
        }
    }
    Ok(found.into_values().collect())
}

async fn body_bytes(reader: &RemoteReader, container: u64, blob: &Blob) -> Result<u64> {
    match blob.blocks {
        None => Ok(blob.length),
        Some(_) => {
            let key = list_key(container, blob.body);
            let list: BlockList = row(reader, BLOCK_LISTS, &key).await?;
            Ok(blocks_bytes(&list.blocks))
        }
    }
}

/// A durable row, or the default if there is none.
async fn row<R: Record + Default>(reader: &RemoteReader, table: TableId, key: &[u8]) -> Result<R> {
    match reader.row(table, key).await? {
        Some(row) => keys::decode(&row).map_err(|_| Error::damaged("a count of blobs")),
        None => Ok(R::default()),
    }
}

/// The next rows of a table after the last key; `None` at its end.
async fn page<R: Record>(
    reader: &RemoteReader,
    table: TableId,
    last: &mut Option<Bytes>,
) -> Result<Option<Vec<(Bytes, R)>>> {
    let from = last.clone().map_or(Bound::Unbounded, Bound::Excluded);
    let rows = reader.rows(table, from, Bound::Unbounded, PAGE).await?;
    let Some(end) = rows.last() else {
        return Ok(None);
    };
    *last = Some(end.key.clone());
    let decoded = rows.into_iter().map(|row| match keys::decode(&row.value) {
        Ok(record) => Ok((row.key, record)),
        Err(_) => Err(Error::damaged("a row of blobs")),
    });
    decoded.collect::<Result<_>>().map(Some)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
