//! HTTP: connections and middleware of all routes.

mod body;
mod body_pool;
mod cors;
mod forwarded;
mod health;
mod landing;
mod metrics;
mod origin;
mod origin_check;
mod problem;
mod response;
mod serve;
mod span;
mod tracked_body;

pub use body::BodyBudget;
pub use body::{BodyChunks, BodyError, RETRY_SECONDS, defer, read};
pub use cors::Cors;
pub use forwarded::{ForwardedClient, TrustedProxies};
pub use health::{HealthCheck, NodeHealth, State};
pub use landing::{Landing, LandingPage};
pub use metrics::{MetricRegistry, MetricSample};
pub use origin_check::KnownHosts;
pub use problem::Problem;
pub use problem::audited;
pub use serve::{Middleware, Routes, serve};
pub use span::propagate;
