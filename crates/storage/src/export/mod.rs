//! What a backup and a copy read of a store.
//!
//! Rows of a partition page by page, and a tap on all entries that are committed while
//! the pages are read.

mod backup_guard;
mod cut;
mod pages;
pub(crate) mod tap;

pub use backup_guard::BackupGuard;
pub use cut::{CutPoint, OpenTap};
pub use pages::Pages;
pub use tap::TappedEntry;
