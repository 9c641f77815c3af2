//! Tests of the vendors' SDKs against the server.
//!
//! Some packages carry the vendors' own tests: those are run as they are, with the start or
//! the credentials replaced that only Azure has. The packages of durabletask-python and
//! durabletask-js carry none, so scenarios of ours show the same by the unmodified SDK.
//! `interop/upstream` lists every test, with its scenarios or with the reason why it is left
//! out. A package that carries a test which its list does not name fails.

mod azeventhubs;
mod check;
mod durabletask_go;
mod eventhub_python;
mod list;
mod request;
mod server;

pub(crate) use check::check;
