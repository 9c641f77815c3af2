//! The order and the execution of commands.
//!
//! The sequencer decides what runs next, a run gives the service its turn, and the gate
//! holds what the turn has caused until its commit is durable.

pub(crate) mod blocked_commands;
pub(crate) mod effect;
pub(crate) mod gate;
pub(crate) mod pending_effects;
pub(crate) mod pinned_rows;
pub(crate) mod run;
pub(crate) mod sequencer;
pub(crate) mod service_error;
pub(crate) mod suspension;
pub(crate) mod tables;
pub(crate) mod turn;
pub(crate) mod write_buffer;
