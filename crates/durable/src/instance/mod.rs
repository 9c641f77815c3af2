//! Orchestrations as rows, and the commands that change them.

mod actions;
mod commit;
mod control;
mod end;
mod inline;
mod loaded_instance;
mod record;
mod rewind;
mod start;

pub(crate) use commit::{give_up, task_done, turn_done};
pub(crate) use control::{erase, expire, purge, restart, resume, suspend, terminate};
pub(crate) use loaded_instance::{INPUT, InboxRecord, LoadedInstance, OUTPUT};
pub(crate) use record::InstanceRecord;
pub(crate) use rewind::{rewind, rewind_child};
pub(crate) use start::{raise, start, wake};
