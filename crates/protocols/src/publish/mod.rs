//! Events by plain HTTP: one request, one publication.

mod body;
mod error;
mod headers;
pub(crate) mod property;
mod routes;

pub use routes::{ROUTES, routes};
