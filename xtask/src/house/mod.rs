//! The rules of the house that no other tool checks.

mod all;
mod codes;
mod header;
mod layers;
mod leftovers;
mod paths;
mod ring;
mod tree;

pub(crate) use all::check;
