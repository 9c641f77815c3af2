//! The owner of a partition: load, loop, drain.

pub(crate) mod alarm;
pub(crate) mod drain;
pub(crate) mod idle;
pub(crate) mod load;
pub(crate) mod owner_loop;
pub(crate) mod runtime;
