//! Programs that tests need, installed below the target.

mod all;
mod browser;
mod marker;
mod node;
mod postgres;
mod python;
mod scratch;
mod system;

pub(crate) use all::check;
pub(crate) use postgres::install as install_postgres;
