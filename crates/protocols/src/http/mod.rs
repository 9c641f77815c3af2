//! HTTP: connections and middleware of all routes.

mod answer;
mod body;
mod cors;
mod forwarded;
mod health;
mod landing;
mod metrics;
mod origin;
mod problem;
mod room;
mod serve;
mod shield;
mod span;
mod unread;

pub use body::Bodies;
pub(crate) use body::{Chunks, RETRY_SECONDS, Unread, read};
pub use cors::Cors;
pub use forwarded::{Client, Proxies};
pub use health::{Check, Health, State};
pub use landing::{Landing, Page};
pub use metrics::{Reading, Registry};
pub use problem::Problem;
pub(crate) use problem::audited;
pub use serve::{Frame, serve};
pub use shield::Hosts;
pub use span::propagate;
