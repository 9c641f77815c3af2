//! The measured server, a child process.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result};

use super::settings::Settings;
use crate::child::Child;

/// A server on a folder, killed on drop.
pub(super) struct EventServer {
    pub(super) child: Child,
    pub(super) port: u16,
}

impl EventServer {
    pub(super) fn start(settings: &Settings, folder: &Path) -> Result<Self> {
        let arguments = [OsStr::new("events-child"), folder.as_os_str()];
        let (child, said) = Child::start_saying(&settings.executable, arguments)?;
        let port = said.parse().context("the child says no port")?;
        Ok(Self { child, port })
    }
}
