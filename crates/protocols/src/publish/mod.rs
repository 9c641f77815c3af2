//! Events by plain HTTP: one request, one publication.

mod body;
mod headers;
mod refused;
mod routes;

pub use routes::routes;
