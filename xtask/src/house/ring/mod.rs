//! No ring of imports between the files of a crate.

mod cycle;
mod imports;
mod modules;
mod resolve;

pub(crate) use resolve::check;
