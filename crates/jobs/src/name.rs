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

/// At the first home: the last ticket of a bucket.
const LAST: &str = "ticket";

/// At the second one: this ticket of the bucket and all before it are void.
const VOID: &str = "void";

/// Names share numbers by the bucket, so that there is no row for each of them, and
/// seldom one is in the way of another.
const BUCKETS: u64 = 1024;

/// The key of a number of a name's bucket, by other bits of the spread than those that
/// chose the partition.
fn row(what: &str, to: &Address) -> Vec<u8> {
    let bucket = (to.spread() >> 32) % BUCKETS;
    format!("{what} {bucket}").into_bytes()
}

/// Answers a ticket that was drawn, or up to which they are void.
pub(crate) fn answer(turn: &mut Turn<'_>, to: &Address, naming: Naming) -> Result<Say, Halt> {
    let found: Option<Collection> = rows::read(turn, COLLECTIONS, &to.name)?;
    if found.is_some() {
        return Err(taken());
    }
    let ticket = match naming {
        Naming::Draw { above } => {
            let key = row(LAST, to);
            let last = number(turn, COUNTS, &key)?.unwrap_or(0);
            // Time is above what was forgotten with a lost region.
            let ticket = last.max(above).max(turn.time().0.max(0) as u64);
            let ticket = ticket.saturating_add(1);
            put_number(turn, COUNTS, &key, ticket);
            ticket
        }
        Naming::Void { up_to } => {
            let key = row(VOID, to);
            let void = number(turn, COUNTS, &key)?.unwrap_or(0);
            if up_to > void {
                put_number(turn, COUNTS, &key, up_to);
            }
            void.max(up_to)
        }
    };
    Ok(Say::Ticket(ticket))
}

/// Refuses a new collection whose ticket does not count any more.
pub(crate) fn check(turn: &mut Turn<'_>, to: &Address, expect: Expect) -> Result<(), Halt> {
    let Expect::Ticket(ticket) = expect else {
        return Ok(());
    };
    // Each home has one of them.
    let last = number(turn, COUNTS, &row(LAST, to))?;
    let void = number(turn, COUNTS, &row(VOID, to))?;
    match last.is_none_or(|last| ticket == last) && void.is_none_or(|void| ticket > void) {
        true => Ok(()),
        false => Err(taken()),
    }
}

fn taken() -> Halt {
    let message = "the name is used, or about to be, in the other region; look there";
    refuse(Kind::Taken, message)
}
