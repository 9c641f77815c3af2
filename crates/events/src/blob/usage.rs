//! Counts what accounts and containers take.
//!
//! The counts are rows of the partition, written in the same commit as the change that
//! they count. A write that makes an account larger needs room in the partition's allowance
//! of the account's limit; a write that does not is never refused. A blob and a block
//! count with their bytes and `limits::BLOB_ENTRY_BYTES`.

use steadfast_collections::schema::Record;
use steadfast_core::id::TableId;
use steadfast_partition::{Address, Turn, TurnError};

use crate::blob::record::Container;
use crate::blob::usage_record::{
    AccountRecord, CountState, CountedContainer, Usage, UsageChange, account_of,
};
use crate::error::{Error, ErrorKind};
use crate::keys::{self, ACCOUNTS, CONTAINER_USAGE, CONTAINERS};

/// The limit of accounts that have none.
const UNLIMITED: u64 = u64::MAX;

/// The key of the partition's [`CountState`]. No container has an empty number.
pub(super) const COUNT_STATE: &[u8] = b"";

/// Counts a change in a container. A removed container counts nothing any more.
pub(super) fn count(
    turn: &mut Turn<'_>,
    to: &Address,
    container: u64,
    change: UsageChange,
    limit: u64,
) -> Result<(), TurnError> {
    if change == UsageChange::default() || !exists(turn, to, container)? {
        return Ok(());
    }
    let is_limited = change.bytes > 0 && limit != UNLIMITED;
    if !is_counted(turn, is_limited)? {
        return Ok(());
    }
    let name = account_of(&to.name);
    let mut account = account(turn, name)?;
    account.usage = account.usage.changed(change);
    if is_limited && account.usage.bytes > room(&account, limit) {
        return Err(full(name, limit));
    }
    turn.put(ACCOUNTS, name, keys::encode(&account));
    let key = container.to_be_bytes();
    let own: Usage = read(turn, CONTAINER_USAGE, &key)?;
    turn.put(CONTAINER_USAGE, &key, keys::encode(&own.changed(change)));
    Ok(())
}

/// As [`count`], for a change that makes the account no larger.
pub(super) fn uncount(
    turn: &mut Turn<'_>,
    to: &Address,
    container: u64,
    change: UsageChange,
) -> Result<(), TurnError> {
    count(turn, to, container, change, 0)
}

/// Counts bytes of uploads, which no limit bounds until they become a blob or a block.
pub(super) fn count_upload(
    turn: &mut Turn<'_>,
    to: &Address,
    container: u64,
    uploads: i64,
) -> Result<(), TurnError> {
    let change = UsageChange {
        uploads,
        ..UsageChange::default()
    };
    count(turn, to, container, change, 0)
}

/// Rejects a body that the account has no room for.
pub(super) fn check_room(
    turn: &mut Turn<'_>,
    to: &Address,
    (before, after): (u64, u64),
    uploaded: u64,
    limit: u64,
) -> Result<(), TurnError> {
    if after <= before || limit == UNLIMITED {
        return Ok(());
    }
    is_counted(turn, true)?;
    let name = account_of(&to.name);
    let account = account(turn, name)?;
    let others = account.usage.total().saturating_sub(before + uploaded);
    if others.saturating_add(after) <= room(&account, limit) {
        Ok(())
    } else {
        Err(full(name, limit))
    }
}

/// A container is removed with all that it takes.
pub(super) fn forget_container(
    turn: &mut Turn<'_>,
    to: &Address,
    container: u64,
) -> Result<(), TurnError> {
    if !is_counted(turn, false)? {
        return Ok(());
    }
    let name = account_of(&to.name);
    let key = container.to_be_bytes();
    let own: Usage = read(turn, CONTAINER_USAGE, &key)?;
    if own != Usage::default() {
        let mut account = account(turn, name)?;
        account.usage = account.usage.minus(own);
        turn.put(ACCOUNTS, name, keys::encode(&account));
        turn.delete(CONTAINER_USAGE, &key);
    }
    Ok(())
}

/// A partition without any container needs no scan.
pub(super) fn start_counting(turn: &mut Turn<'_>) {
    let state = CountState {
        is_counted: true,
        changes: 0,
    };
    turn.put(CONTAINER_USAGE, COUNT_STATE, keys::encode(&state));
}

/// Takes over what a scan has found, unless something was removed since.
pub(super) fn set_counts(
    turn: &mut Turn<'_>,
    changes: u64,
    containers: &[CountedContainer],
) -> Result<(), TurnError> {
    let state: CountState = read(turn, CONTAINER_USAGE, COUNT_STATE)?;
    if state.is_counted {
        return Ok(());
    }
    if state.changes != changes {
        let words = "blobs were removed while they were counted; retry";
        return Err(Error::new(ErrorKind::Unavailable, words).into());
    }
    for found in containers {
        let key = found.id.to_be_bytes();
        turn.put(CONTAINER_USAGE, &key, keys::encode(&found.usage));
        let name = account_of(found.name.as_bytes());
        let mut account = account(turn, name)?;
        account.usage = account.usage.plus(found.usage);
        turn.put(ACCOUNTS, name, keys::encode(&account));
    }
    start_counting(turn);
    Ok(())
}

/// The row of an account in this partition.
pub(super) fn account(turn: &mut Turn<'_>, name: &[u8]) -> Result<AccountRecord, TurnError> {
    read(turn, ACCOUNTS, name)
}

/// A row, or the default if there is none.
pub(super) fn read<R: Record + Default>(
    turn: &mut Turn<'_>,
    table: TableId,
    key: &[u8],
) -> Result<R, TurnError> {
    match turn.get(table, key)? {
        Some(row) => keys::decode(&row).map_err(|_| Error::damaged("a count of blobs").into()),
        None => Ok(R::default()),
    }
}

/// How much an account may take in this partition.
fn room(account: &AccountRecord, limit: u64) -> u64 {
    if account.allowance.limit == limit {
        account.allowance.bytes
    } else {
        0
    }
}

fn exists(turn: &mut Turn<'_>, to: &Address, container: u64) -> Result<bool, TurnError> {
    let Some(row) = turn.get(CONTAINERS, &to.name)? else {
        return Ok(false);
    };
    let found: Container = keys::decode(&row).map_err(|_| Error::damaged("a container"))?;
    Ok(found.id == container)
}

/// Whether the partition is counted. If not, growth within a limit is refused until it
/// is, and anything else is noted, so that a scan that is under way is repeated.
fn is_counted(turn: &mut Turn<'_>, is_limited: bool) -> Result<bool, TurnError> {
    let mut state: CountState = read(turn, CONTAINER_USAGE, COUNT_STATE)?;
    if state.is_counted {
        return Ok(true);
    }
    if is_limited {
        let words = "the blobs of this partition are not counted yet; retry";
        return Err(Error::new(ErrorKind::AccountFull, words).into());
    }
    state.changes += 1;
    turn.put(CONTAINER_USAGE, COUNT_STATE, keys::encode(&state));
    Ok(false)
}

fn full(account: &[u8], limit: u64) -> TurnError {
    let account = String::from_utf8_lossy(account);
    let words = format!(
        "the account '{account}' has no room for this within its limit of {limit} bytes; \
         delete blobs, or raise 'limits.blob_account_bytes'"
    );
    Error::new(ErrorKind::AccountFull, words).into()
}
