//! Events by plain HTTP: one request, one publication.

mod body;
mod error;
mod headers;
mod routes;

pub use routes::{ROUTES, routes};
