//! What can go wrong with a data folder.

use std::path::{Path, PathBuf};

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;
use steadfast_storage::SpecificKind;

/// The kinds of failure that only a data folder has; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process has the data folder open.
    #[error("STF-2001", folder_in_use(path, *holder))]
    FolderInUse {
        path: PathBuf,
        /// The id of that process, if the system lists it.
        holder: Option<u32>,
    },
    /// The data folder was written by a newer version.
    #[error(
        "STF-2002",
        "{} has format {found}, this version knows up to {known}; use a newer steadfast",
        path.display()
    )]
    NewerFormat {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// The path is a file, or a folder that Steadfast did not write.
    #[error(
        "STF-2015",
        "{} is not a data folder of Steadfast; name one, or for a new server an empty or \
         new folder",
        path.display()
    )]
    ForeignFolder { path: PathBuf },
    /// A restore into a folder without state was begun and not finished.
    #[error(
        "STF-2056",
        "a restore into {} was not finished, and there is no state from before it; run it again",
        path.display()
    )]
    RestoreUnfinished { path: PathBuf },
}

impl SpecificKind for ErrorKind {
    fn code(&self) -> Code {
        self.code()
    }
}

fn folder_in_use(path: &Path, holder: Option<u32>) -> String {
    let holder = match holder {
        Some(holder) => format!("process {holder}"),
        None => "another process".to_owned(),
    };
    let path = path.display();
    format!("{path} is open in {holder}; stop that process or use another folder")
}
