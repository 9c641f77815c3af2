//! Converts between Durable Task messages and engine types.
//!
//! The server reads work items' results and writes work items; the worker in Rust reads
//! work items (`decode_remote.rs`) and writes results (`encode.rs`).
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

pub use action::action;
pub use decode::task;
pub use decode_remote::{decode_entity, decode_overview, decode_work};
pub use encode::{encode_actions, encode_batch_result};
pub use entity::{batch_result, encode_entity};
pub use error::{ConvertError, payload};
pub use event::{encode_event, encode_trace};
pub use failure::{decode_failure, encode_failure};
pub use time::{moment, span_of_time, timestamp};
pub use view::{decode_statuses, encode_overview, status};
pub use work::{can, decode_token, encode_item, span, terms};
