//! Names of collections that two homes share.
//!
//! Each region of a pair is the home of some collections, and a name belongs to one of
//! them. Whoever makes a collection draws a ticket at the first home, which refuses if it
//! has one of that name. For the second home the ticket is used there, unless it is void
//! by then. For the first one, the second one voids all tickets up to this one, and
//! refuses if it has the name; then the ticket counts as long as it is the last that was
//! drawn. So whatever stops half way, no name is used twice.

use steadfast_partition::{Address, Halt, Turn};

use crate::collection::Collection;
use crate::command::{Expect, Naming, Say};
use crate::error::{Kind, refuse};
use crate::rows::{self, COLLECTIONS, COUNTS, number, put_number};

/// At the first home: the last ticket of the partition.
const LAST: &[u8] = b"ticket";

/// At the second one: this ticket and all before it are void.
const VOID: &[u8] = b"void";

/// Answers a ticket that was drawn, or up to which they are void.
pub(crate) fn answer(turn: &mut Turn<'_>, to: &Address, naming: Naming) -> Result<Say, Halt> {
    let found: Option<Collection> = rows::read(turn, COLLECTIONS, &to.name)?;
    if found.is_some() {
        return Err(taken());
    }
    let ticket = match naming {
        Naming::Draw { above } => {
            let last = number(turn, COUNTS, LAST)?.unwrap_or(0);
            // Time is above what was forgotten with a lost region.
            let ticket = last.max(above).max(turn.time().0.max(0) as u64) + 1;
            put_number(turn, COUNTS, LAST, ticket);
            ticket
        }
        Naming::Void { up_to } => {
            let void = number(turn, COUNTS, VOID)?.unwrap_or(0);
            if up_to > void {
                put_number(turn, COUNTS, VOID, up_to);
            }
            void.max(up_to)
        }
    };
    Ok(Say::Ticket(ticket))
}

/// Refuses a new collection whose ticket does not count any more.
pub(crate) fn check(turn: &mut Turn<'_>, expect: Expect) -> Result<(), Halt> {
    let Expect::Ticket(ticket) = expect else {
        return Ok(());
    };
    // Each home has one of them.
    let last = number(turn, COUNTS, LAST)?;
    let void = number(turn, COUNTS, VOID)?;
    match last.is_none_or(|last| ticket == last) && void.is_none_or(|void| ticket > void) {
        true => Ok(()),
        false => Err(taken()),
    }
}

fn taken() -> Halt {
    let message = "the name is used, or about to be, in the other region; look there";
    refuse(Kind::Taken, message)
}
