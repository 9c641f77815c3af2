//! Between messages of the protocol and what the engine knows.
//!
//! Texts stay as they are, absent or empty. What a client or worker has sent and
//! what cannot be is a [`Malformed`], never a guess.

mod action;
mod entity;
mod event;
mod failure;
mod legacy;
mod malformed;
mod taken;
mod time;
mod view;
mod work;

pub(super) use action::action;
pub(super) use entity::{batch_result, entity_shown};
pub(super) use event::event_sent;
pub(super) use failure::failure_taken;
pub(super) use malformed::{Malformed, payload};
pub(super) use taken::task;
pub(super) use time::{moment, span_of_time};
pub(super) use view::{overview_shown, statuses};
pub(super) use work::{item_sent, span, terms, token_taken};
