//! Output of commands, for users or for programs.

mod format;
mod page;
pub(crate) mod progress;
mod result;
mod stdout;
mod table;
pub(crate) mod units;
mod watch;
mod yaml;

pub(crate) use format::{OutputFormat, print_value};
pub(crate) use page::{Page, PageArguments};
pub(crate) use progress::note;
pub(crate) use result::{Facts, print, timed};
pub(crate) use stdout::out;
pub(crate) use table::{Table, display_value};
pub(crate) use watch::WatchArguments;
