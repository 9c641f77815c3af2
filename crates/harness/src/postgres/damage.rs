//! Damage to files, as bad disks do it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::bail;

/// Bytes of one of PostgreSQL's pages.
const PAGE: u64 = 8192;

/// Cuts a file to half its pages.
pub fn cut_in_half(path: &Path) -> anyhow::Result<()> {
    let file = File::options().write(true).open(path)?;
    let pages = file.metadata()?.len() / PAGE;
    if pages < 2 {
        bail!("{} has {pages} pages only", path.display());
    }
    file.set_len(pages / 2 * PAGE)?;
    Ok(())
}

/// Changes one bit of a byte.
pub fn flip_byte(path: &Path, at: u64) -> anyhow::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 0x10;
    file.write_all_at(&byte, at)?;
    Ok(())
}
