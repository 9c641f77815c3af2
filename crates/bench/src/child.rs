//! A child process that reports readiness and then waits.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::process::{cpu_seconds_of, resident_mb};

/// The line by which a child reports that it has done its part.
const READY: &str = "READY";

/// A child that is ready. It is killed when this is dropped.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts this program's `bench` again and waits until it is ready.
    pub(crate) fn start<A: AsRef<OsStr>>(
        executable: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let (child, said) = Self::start_saying(executable, arguments)?;
        ensure!(said.is_empty(), "the child said {said:?}");
        Ok(child)
    }

    /// Like [`Child::start`]; returns also what the child reports besides readiness.
    pub(crate) fn start_saying<A: AsRef<OsStr>>(
        executable: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<(Self, String)> {
        let child = Command::new(executable)
            .arg("bench")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = Self(child.context("start a child process")?);
        let output = child.0.stdout.take().context("the child has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let said = line.trim().strip_prefix(READY);
        let said = said.with_context(|| format!("the child said {line:?}"))?;
        Ok((child, said.trim().to_owned()))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its CPU time so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(&self.0.id().to_string())
    }

    /// Its resident memory, in MB.
    pub(crate) fn resident_mb(&self) -> Result<f64> {
        resident_mb(self.0.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child's side: reports readiness and waits until it is killed, or until `input`
/// closes because the parent has ended.
pub(crate) fn wait_for_end(input: impl Read, output: impl Write) -> Result<()> {
    wait_saying("", input, output)
}

/// Like [`wait_for_end`], with a text for the parent.
pub(crate) fn wait_saying(words: &str, mut input: impl Read, mut output: impl Write) -> Result<()> {
    writeln!(output, "{READY} {words}")?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    Ok(())
}
