//! A fake disk under real files, cut off at any operation.
//!
//! A FUSE file system in memory, so that also libraries whose file access cannot be replaced run
//! on it. It knows what was synced: a power cut keeps any subset of what was not, chosen by a seed.

mod content;
mod cut;
mod folder;
mod kernel;
mod mount;
mod tree;
mod volume;

pub use mount::FakeDisk;
