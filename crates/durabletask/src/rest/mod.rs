//! The HTTP interface of Durable Functions.
//!
//! Everything below `/runtime/webhooks/durabletask`, on the same instances that the
//! SDKs see.

mod entities;
mod error;
mod instances;
mod json_views;
mod request;
mod resource;
mod response;
mod routes;

pub use request::BASE;
pub use routes::{ROUTES, routes};
