//! Outbound calls of jobs, checked by a guard.

mod action;
mod attempt_ids;
mod bus;
mod call_permit;
mod client_pool;
mod delivery;
mod http;
mod queue;
mod token;

pub use call_permit::CallPermit;
pub use client_pool::Options;
pub use delivery::OutboundDelivery;
