//! Events by plain HTTP: one request, one publication.

mod body;
mod headers;
pub(crate) mod property;
mod refused;
mod routes;

pub use routes::{ROUTES, routes};
