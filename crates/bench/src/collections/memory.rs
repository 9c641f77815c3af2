//! The memory of resident rows.
//!
//! Each measurement runs in a process of its own: a second one would reuse memory that
//! the first has freed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::settings::Settings;
use crate::report::Report;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let millions = settings.held_rows as f64 / 1e6;
    for _ in 0..settings.rounds {
        let folder = settings.temporary()?;
        let durable = grown_mb(settings, Some(&folder.path().join("data")))?;
        let volatile = grown_mb(settings, None)?;
        let figures = &mut report.figures;
        figures.record("memory_per_million_rows_mb", durable / millions);
        let name = "volatile_memory_per_million_rows_mb";
        figures.record(name, volatile / millions);
    }
    Ok(())
}

fn grown_mb(settings: &Settings, folder: Option<&Path>) -> Result<f64> {
    let mut command = Command::new(&settings.executable);
    command.args(["bench", "collections-child"]);
    command.arg(settings.held_rows.to_string());
    command.args(folder);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start a child process")?;
    ensure!(
        output.status.success(),
        "the child ended with {}",
        output.status
    );
    let said = String::from_utf8(output.stdout)?;
    let said = said.trim();
    said.parse()
        .with_context(|| format!("the child said {said:?}"))
}
