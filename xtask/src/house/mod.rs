//! The rules of the house that no other tool checks.

mod all;
mod bodies;
mod codes;
mod documents;
mod faults;
mod features;
mod header;
mod layers;
mod leftovers;
mod names;
mod paths;
mod ring;
mod tree;
mod words;
mod workflow;

pub(crate) use all::check;
pub(crate) use features::names as features;
