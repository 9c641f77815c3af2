//! The HTTP interface of Durable Functions.
//!
//! Everything below `/runtime/webhooks/durabletask`, on the same instances that the
//! SDKs see.

mod answer;
mod asked;
mod entities;
mod fault;
mod form;
mod instances;
mod place;
mod routes;

pub use asked::BASE;
pub use routes::{ROUTES, routes};
