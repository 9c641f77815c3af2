//! Converts between protocol messages and engine types.
//!
//! Strings keep the difference between absent and empty. An invalid message is a
//! [`ConvertError`], never a guess.

mod action;
mod decode;
mod decode_remote;
mod encode;
mod entity;
mod error;
mod event;
mod failure;
mod legacy;
mod time;
mod view;
mod work;

pub(super) use action::action;
pub(super) use decode::task;
pub(super) use decode_remote::{decode_entity, decode_overview, decode_work};
pub(super) use encode::{encode_actions, encode_batch_result};
pub(super) use entity::{batch_result, encode_entity};
pub(super) use error::{ConvertError, payload};
pub(super) use event::{encode_event, encode_trace};
pub(super) use failure::{decode_failure, encode_failure};
pub(super) use time::{moment, span_of_time, timestamp};
pub(super) use view::{decode_statuses, encode_overview, status};
pub(super) use work::{can, decode_token, encode_item, span, terms};
