//! Programs that tests need, installed below the target.

mod all;
mod browser;
mod go;
mod marker;
mod maven;
mod node;
mod packages;
mod postgres;
mod programs;
mod python;
mod scratch;
mod sdists;
mod system;

pub(crate) use all::check;
pub(crate) use browser::install as install_browser;
pub(crate) use go::{build as build_go, command as go_command};
pub(crate) use maven::install as install_java;
pub(crate) use node::install as install_node;
pub(crate) use packages::install as install_packages;
pub(crate) use postgres::install as install_postgres;
pub(crate) use programs::build as build_program;
pub(crate) use python::install as install_python;
pub(crate) use sdists::{folder as tests_folder, unpack as unpack_tests};
pub(crate) use system::{install_openssl, install_systemd};
