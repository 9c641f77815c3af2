//! The engine in a folder: kills, power cuts, damage.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod conformance;
mod crash;
mod errors;
mod fixture;
#[path = "../../../storage/tests/model/mod.rs"]
mod model;
mod recovery;
#[path = "../../../storage/tests/seam/mod.rs"]
mod seam;
