//! The targets, and their kept inputs.

use std::fs;
use std::path::PathBuf;

use crate::amqp::Amqp;
use crate::blob::BlobSession;
use crate::durable::{Grpc, Rest};
use crate::handshake::HandshakeSession;
use crate::links::LinkSession;
use crate::peers::PeerSession;
use crate::publish::PublishSession;
use crate::requests::Requests;
use crate::scheduler::{Pkcs12Session, SchedulerSession};
use crate::session::{Session, run};
use crate::signalr::SignalR;
use crate::tokens::TokenSession;

/// One fuzz target.
pub struct Target {
    /// Its name, and the name of the folder of its corpus.
    pub name: &'static str,
    /// Executes one input.
    ///
    /// # Panics
    ///
    /// If the server does something that it must not.
    pub run: fn(&[u8]),
    /// The seed inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn row<S: Session>() -> Target {
    Target {
        name: S::NAME,
        run: run::<S>,
        seeds: S::seeds,
    }
}

/// All targets.
pub static TARGETS: &[Target] = &[
    row::<Requests>(),
    row::<Amqp>(),
    row::<BlobSession>(),
    row::<PublishSession>(),
    row::<SignalR>(),
    row::<LinkSession>(),
    row::<Grpc>(),
    row::<Rest>(),
    row::<SchedulerSession>(),
    row::<HandshakeSession>(),
    row::<PeerSession>(),
    row::<TokenSession>(),
    row::<Pkcs12Session>(),
];

/// Finds a target by its name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads the kept inputs of a target, in the order of their names.
///
/// # Panics
///
/// If a file cannot be read.
pub fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = files.map(|file| file.expect("the corpus can be listed").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(file).expect("the corpus can be read");
        (name.into_owned(), bytes)
    };
    files.iter().map(read).collect()
}
