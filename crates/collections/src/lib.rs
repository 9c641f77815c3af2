//! Reliable collections: dictionaries, queues and logs.
//!
//! Transactional, durable, and only ever changed through their own operations.

pub mod schema;

#[doc(hidden)]
pub use schema::__private;
