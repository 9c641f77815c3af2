//! Converts between protocol messages and engine types.
//!
//! Strings keep the difference between absent and empty. An invalid message is a
//! [`Malformed`], never a guess.

mod action;
mod entity;
mod event;
mod failure;
mod legacy;
mod malformed;
mod received;
mod sent;
mod taken;
mod time;
mod view;
mod work;

pub(super) use action::action;
pub(super) use entity::{batch_result, entity_shown};
pub(super) use event::{event_sent, trace_sent};
pub(super) use failure::{failure_sent, failure_taken};
pub(super) use malformed::{Malformed, payload};
pub(super) use received::{entity_received, overview_received, work_received};
pub(super) use sent::{actions_sent, batch_result_sent};
pub(super) use taken::task;
pub(super) use time::{moment, span_of_time, timestamp};
pub(super) use view::{overview_shown, status, statuses};
pub(super) use work::{can, item_sent, span, terms, token_taken};
