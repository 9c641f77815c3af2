//! Collection names shared by a pair of regions.
//!
//! Each region of a pair has its own collections, and a name belongs to one region. The
//! creator of a collection requests a ticket from the first region, which rejects a name
//! that it already has. To create in the second region, the ticket is used there, unless
//! it was invalidated. To create in the first region, the second one first invalidates
//! all tickets up to this one, and rejects a name that it has; then the ticket is valid
//! as long as it is the last issued. So no name is used twice, at whatever step a
//! creation stops.

use steadfast_partition::{Address, Turn, TurnError};

use crate::collection::JobCollection;
use crate::command::{JobResponse, NameRequest, Precondition};
use crate::error::{ErrorKind, refuse};
use crate::rows::{self, COLLECTIONS, COUNTS, number, put_number};

/// At the first region: the last ticket of a bucket.
const LAST: &str = "ticket";

/// At the second region: this ticket of the bucket and all before it are invalid.
const VOID: &str = "void";

/// Names of a bucket share their ticket numbers, so that there is no row per name, and
/// names rarely conflict.
const BUCKETS: u64 = 1024;

/// The key of a number of a name's bucket, by other bits of the spread than those that
/// chose the partition.
fn row(what: &str, to: &Address) -> Vec<u8> {
    let bucket = (to.spread() >> 32) % BUCKETS;
    format!("{what} {bucket}").into_bytes()
}

/// Returns the issued ticket, or the last invalid one.
pub(crate) fn answer(
    turn: &mut Turn<'_>,
    to: &Address,
    naming: NameRequest,
) -> Result<JobResponse, TurnError> {
    let found: Option<JobCollection> = rows::read(turn, COLLECTIONS, &to.name)?;
    if found.is_some() {
        return Err(taken());
    }
    let ticket = match naming {
        NameRequest::Issue { above } => {
            let key = row(LAST, to);
            let last = number(turn, COUNTS, &key)?.unwrap_or(0);
            // Clock time exceeds any ticket that was lost with a failed region.
            let ticket = last.max(above).max(turn.time().0.max(0) as u64);
            let ticket = ticket.saturating_add(1);
            put_number(turn, COUNTS, &key, ticket);
            ticket
        }
        NameRequest::Void { up_to } => {
            let key = row(VOID, to);
            let void = number(turn, COUNTS, &key)?.unwrap_or(0);
            if up_to > void {
                put_number(turn, COUNTS, &key, up_to);
            }
            void.max(up_to)
        }
    };
    Ok(JobResponse::Ticket(ticket))
}

/// Rejects a new collection whose ticket is no longer valid.
pub(crate) fn check(
    turn: &mut Turn<'_>,
    to: &Address,
    expect: Precondition,
) -> Result<(), TurnError> {
    let Precondition::Ticket(ticket) = expect else {
        return Ok(());
    };
    // Each region has one of the two numbers.
    let last = number(turn, COUNTS, &row(LAST, to))?;
    let void = number(turn, COUNTS, &row(VOID, to))?;
    if last.is_none_or(|last| ticket == last) && void.is_none_or(|void| ticket > void) {
        Ok(())
    } else {
        Err(taken())
    }
}

fn taken() -> TurnError {
    let message = "the name is used, or about to be, in the other region; look there";
    refuse(ErrorKind::Taken, message)
}
