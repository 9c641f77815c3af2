//! App servers: the service's side and theirs.

pub(crate) mod app_server_hub;
pub(crate) mod link;
pub(crate) mod link_set;
pub(crate) mod link_writer;
pub(crate) mod links;
pub(crate) mod ticks;
