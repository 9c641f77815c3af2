//! Durable timers and their memory.

pub(crate) mod timer_index;
pub(crate) mod timer_lookahead;
pub(crate) mod timers;
