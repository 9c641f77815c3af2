//! Tests of the vendors' SDKs against the server.
//!
//! Some packages contain the vendors' own tests: those run unmodified, except that the setup
//! or the credentials of Azure are replaced. The packages of durabletask-python and
//! durabletask-js contain none, so our scenarios cover the same with the unmodified SDK.
//! `interop/upstream` lists every test with its scenarios or with the reason why it is left
//! out. The check fails if a package contains a test that its list does not name.

mod azeventhubs;
mod check;
mod durabletask_go;
mod eventhub_python;
mod list;
mod request;
mod server;

pub(crate) use check::{check, install};
