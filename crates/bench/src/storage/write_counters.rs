//! Write amplification of commits.

use std::path::Path;

use anyhow::Result;

use super::session::Session;
use crate::disk::device_bytes;
use crate::process::{settle, written_bytes};
use crate::report::Report;

/// The counters before some load.
pub(super) struct WriteCounters {
    process: u64,
    device: Option<u64>,
}

impl WriteCounters {
    /// Starts to count, after a flush and background work.
    pub(super) fn count(session: &Session, folder: &Path) -> Result<Self> {
        session.flush()?;
        settle()?;
        Ok(Self {
            process: written_bytes()?,
            device: device_bytes(folder),
        })
    }

    /// Records the bytes written since then per committed byte, after a flush and
    /// background work.
    pub(super) fn record(
        self,
        session: &Session,
        folder: &Path,
        load: &str,
        committed: f64,
        report: &mut Report,
    ) -> Result<()> {
        let end = Self::count(session, folder)?;
        let figures = &mut report.figures;
        let name = format!("written_bytes_per_committed_byte_{load}");
        figures.record(name, (end.process - self.process) as f64 / committed);
        // The device counts writes of all processes, so this is an upper bound.
        if let (Some(before), Some(after)) = (self.device, end.device) {
            let name = format!("device_bytes_per_committed_byte_{load}");
            figures.record(name, (after - before) as f64 / committed);
        }
        Ok(())
    }
}
