//! Records and keys through the versions of a type.
#![expect(clippy::unwrap_used, reason = "tests")]

extern crate steadfast_collections as steadfast;

#[path = "schema/dictionary.rs"]
mod dictionary;
#[path = "engines/memory.rs"]
mod engine;
#[path = "schema/evolution.rs"]
mod evolution;
#[path = "schema/fields.rs"]
mod fields;
#[path = "schema/golden.rs"]
mod golden;
#[path = "schema/json.rs"]
mod json;
#[path = "schema/keys.rs"]
mod keys;
#[path = "schema/msgpack.rs"]
mod msgpack;
#[path = "schema/random.rs"]
mod random;
#[path = "schema/speed.rs"]
mod speed;
