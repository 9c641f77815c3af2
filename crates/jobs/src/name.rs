//! Names of collections that two homes share.
//!
//! Each region of a pair is the home of some collections, and a name belongs to one of
//! them. The first home keeps the names: whoever makes a collection in the second one
//! borrows its name first, with a ticket. Before the first home uses a lent name itself,
//! the second one voids all tickets up to that one, which it does only if it has no such
//! collection. So whatever stops half way, no name is used twice.

use steadfast_partition::{Address, Halt, Turn};

use crate::collection::Collection;
use crate::command::{Expect, Naming, Say};
use crate::error::{Kind, refuse};
use crate::rows::{self, COLLECTIONS, COUNTS, NAMES, number, put_number};

/// The last ticket of a partition, and the last one that is void.
const LAST: &[u8] = b"ticket";
const VOID: &[u8] = b"void";

/// Answers a ticket, if there is one.
pub(crate) fn answer(turn: &mut Turn<'_>, to: &Address, naming: Naming) -> Result<Say, Halt> {
    let lent = number(turn, NAMES, &to.name)?;
    let ticket = match naming {
        Naming::Lent => lent,
        Naming::Lend => {
            check_unused(turn, to)?;
            // Also above those of a time that was lost with a region.
            let last = number(turn, COUNTS, LAST)?.unwrap_or(0);
            let ticket = (last + 1).max(turn.time().0.max(0) as u64);
            put_number(turn, COUNTS, LAST, ticket);
            put_number(turn, NAMES, &to.name, ticket);
            Some(ticket)
        }
        Naming::TakeBack(ticket) => {
            if lent == Some(ticket) {
                turn.delete(NAMES, &to.name);
            }
            None
        }
        Naming::Void(ticket) => {
            check_unused(turn, to)?;
            let void = number(turn, COUNTS, VOID)?.unwrap_or(0);
            put_number(turn, COUNTS, VOID, void.max(ticket));
            None
        }
    };
    Ok(Say::Ticket(ticket))
}

/// Refuses a new collection whose name is the other home's.
pub(crate) fn check(turn: &mut Turn<'_>, to: &Address, expect: Expect) -> Result<(), Halt> {
    let is_free = match expect {
        Expect::Nothing => turn.get(NAMES, &to.name)?.is_none(),
        Expect::Lent(ticket) => {
            let void = number(turn, COUNTS, VOID)?;
            void.is_none_or(|void| ticket > void)
        }
        Expect::Version(_) => true,
    };
    match is_free {
        true => Ok(()),
        false => Err(taken()),
    }
}

fn check_unused(turn: &mut Turn<'_>, to: &Address) -> Result<(), Halt> {
    let found: Option<Collection> = rows::read(turn, COLLECTIONS, &to.name)?;
    match found {
        None => Ok(()),
        Some(_) => Err(taken()),
    }
}

fn taken() -> Halt {
    let message = "the name is used, or about to be, in the other region; look there";
    refuse(Kind::Taken, message)
}
