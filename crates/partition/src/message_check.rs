//! Checks of messages before the commit that sends them.
//!
//! A receiver never refuses a message of another partition, so what can be known is checked
//! before: whether the target exists, and whether its service accepts messages here.

use async_trait::async_trait;

use crate::error::Result;
use crate::ingress::address::Envelope;

/// Checks the messages of transactions at the node on which they commit.
#[async_trait]
pub trait MessageCheck: Send + Sync + 'static {
    /// The message as it is sent: the node may complete it from its configuration. An error
    /// rejects the whole commit; one that another attempt would meet again is
    /// [`MessageRefused`](crate::ErrorKind::MessageRefused).
    async fn check(&self, message: Envelope) -> Result<Envelope>;
}
