//! The rules of the house that no other tool checks.

mod all;
mod bodies;
mod codes;
mod faults;
mod header;
mod layers;
mod leftovers;
mod paths;
mod ring;
mod tree;

pub(crate) use all::check;
