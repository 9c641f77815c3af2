//! A group whose members share one slow store.

#![allow(dead_code, reason = "each test uses its own part of the world")]

mod album;
mod judge;
mod play;

pub(crate) use play::{Weather, World};
