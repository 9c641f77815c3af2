//! Orchestrations as rows, and the commands that change them.

mod act;
mod begin;
mod commit;
mod control;
mod end;
mod here;
mod living;
mod record;
mod rewind;

pub(crate) use begin::{raise, start, wake};
pub(crate) use commit::{give_up, task_done, turn_done};
pub(crate) use control::{erase, expire, purge, restart, resume, suspend, terminate};
pub(crate) use living::{INPUT, Living, OUTPUT, Stored};
pub(crate) use record::Instance;
pub(crate) use rewind::{rewind, rewind_child};
