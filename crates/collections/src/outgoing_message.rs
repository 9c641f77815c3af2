//! Messages that leave with the commit of a transaction.
//!
//! The service crates build them: an event, a signal, the start of an orchestration, a job,
//! a push to clients. To this crate they are bytes for the runtime of the partition, which
//! delivers them once their commit is durable.

use bytes::Bytes;

use crate::error::Result;

/// A message to an instance of any service, in any partition: what [`Tx::send`](crate::Tx::send)
/// takes.
pub trait OutgoingMessage {
    /// The message, encoded for the runtime. Fails if it is invalid or too large.
    fn into_bytes(self) -> Result<Bytes>;
}
