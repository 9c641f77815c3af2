//! Makes sure that the fake disk can be mounted.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process;

/// Fails with the missing system package if a FUSE file system cannot be mounted.
pub(crate) fn ready() -> Result<()> {
    if !Path::new("/dev/fuse").exists() {
        bail!(
            "/dev/fuse is missing: load the kernel module `fuse`, or pass the device into the container"
        );
    }
    // The superuser calls mount(2) directly.
    if process::is_root() || process::on_path("fusermount3").is_some() {
        return Ok(());
    }
    bail!("fusermount3 is missing: install the system package `fuse3`")
}
