//! Runs other programs and reports how they ended.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs to the end with our output; fails unless the status is zero.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs to the end and returns what was printed; fails unless the status is zero.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{shown}: {}\n{}", output.status, complaint.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that started us, or the one on the path.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where a program is on the path, if it is.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether we run as the superuser.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_command_and_its_complaint() {
        let error = output(Command::new("sh").args(["-c", "echo oh >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("sh -c") && text.contains("oh"), "{text}");
    }

    #[test]
    fn finds_programs_on_the_path() {
        assert!(on_path("sh").is_some());
        assert!(on_path("no-such-program-here").is_none());
    }
}
