//! Commands that run a server, or show and control one.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod serve;
pub(crate) mod time;
pub(crate) mod top;
