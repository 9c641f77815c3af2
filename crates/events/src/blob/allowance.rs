//! Divides an account's limit among the partitions.
//!
//! The home of an account is the partition of its address. It records a larger allowance
//! before the partition has it, and a smaller one after the partition has given up the
//! rest: so the allowances in use never exceed the limit, whatever is lost between them.

use steadfast_core::limits::BLOB_ALLOWANCE_BYTES;
use steadfast_partition::{Address, Turn, TurnError};

use crate::blob::command::BlobResponse;
use crate::blob::usage::{self, account};
use crate::blob::usage_record::{Allowance, AllowanceList, PartitionAllowance};
use crate::error::Error;
use crate::keys::{self, ACCOUNTS, ALLOWANCES};

/// Gives up what a partition does not use of its allowance.
pub(super) fn withdraw(
    turn: &mut Turn<'_>,
    to: &Address,
    known: u64,
    limit: u64,
) -> Result<BlobResponse, TurnError> {
    let mut account = account(turn, &to.name)?;
    let (used, allowance) = (account.usage.bytes, account.allowance);
    if allowance.bytes != used || allowance.limit != limit || allowance.version < known {
        account.allowance = Allowance {
            bytes: used,
            version: allowance.version.max(known) + 1,
            limit,
        };
        turn.put(ACCOUNTS, &to.name, keys::encode(&account));
    }
    Ok(BlobResponse::Account(account))
}

/// Takes a new allowance over, unless a newer one is here already.
pub(super) fn set(
    turn: &mut Turn<'_>,
    to: &Address,
    allowance: Allowance,
) -> Result<(), TurnError> {
    let mut account = account(turn, &to.name)?;
    if allowance.version > account.allowance.version {
        account.allowance = allowance;
        turn.put(ACCOUNTS, &to.name, keys::encode(&account));
    }
    Ok(())
}

/// A claim of a larger allowance.
pub(super) struct AllowanceClaim<'a> {
    pub(super) partition: u32,
    pub(super) bytes: u64,
    pub(super) withdrawn: &'a [PartitionAllowance],
    pub(super) is_complete: bool,
}

/// Gives a partition the allowance it claims, or what is left of the limit.
pub(super) fn claim(
    turn: &mut Turn<'_>,
    to: &Address,
    claim: &AllowanceClaim<'_>,
    limit: u64,
) -> Result<BlobResponse, TurnError> {
    let is_known = turn.get(ALLOWANCES, &to.name)?.is_some();
    if !is_known && !claim.is_complete {
        return Ok(BlobResponse::Allowances(None));
    }
    let mut list: AllowanceList = usage::read(turn, ALLOWANCES, &to.name)?;
    for found in claim.withdrawn {
        let known = entry(&mut list, found.partition);
        if found.allowance.version > known.version {
            *known = found.allowance;
        }
    }
    let others = list.allowances.iter();
    let others = others.filter(|own| own.partition != claim.partition);
    let taken = others.fold(0u64, |sum, own| sum.saturating_add(own.allowance.bytes));
    let free = limit.saturating_sub(taken);
    let own = entry(&mut list, claim.partition);
    let wanted = claim.bytes.saturating_add(BLOB_ALLOWANCE_BYTES).min(free);
    *own = Allowance {
        bytes: own.bytes.max(wanted),
        version: own.version + 1,
        limit,
    };
    turn.put(ALLOWANCES, &to.name, keys::encode(&list));
    Ok(BlobResponse::Allowances(Some(list.allowances)))
}

fn entry(list: &mut AllowanceList, partition: u32) -> &mut Allowance {
    let found = list
        .allowances
        .iter()
        .position(|own| own.partition == partition);
    let at = found.unwrap_or_else(|| {
        let allowance = Allowance::default();
        list.allowances.push(PartitionAllowance {
            partition,
            allowance,
        });
        list.allowances.len() - 1
    });
    &mut list.allowances[at].allowance
}

/// The allowance of a partition in a list of its account's home.
pub(super) fn of(allowances: &[PartitionAllowance], partition: u32) -> Result<Allowance, Error> {
    let found = allowances.iter().find(|own| own.partition == partition);
    found
        .map(|own| own.allowance)
        .ok_or_else(|| Error::damaged("a reply"))
}
