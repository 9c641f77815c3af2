//! One client: its messages, its outbox, its backend.

pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod client_reader;
pub(crate) mod id;
pub(crate) mod identity;
pub(crate) mod migration;
pub(crate) mod open_calls;
pub(crate) mod outbox;
pub(crate) mod resume;
pub(crate) mod ticket;
