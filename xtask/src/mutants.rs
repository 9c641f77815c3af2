//! `cargo xtask mutants`: planted faults must be found.
//!
//! The sources are copied, one small change is applied, and a test must fail. A change
//! that does not compile or no longer applies is an error: the list must be maintained
//! with the code.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::process;
use crate::workspace::Workspace;

/// The time limit of a test, in seconds: a fault may turn a wait into an endless one.
const TIME: &str = "600";

/// Which list of faults.
#[derive(Args)]
pub(crate) struct Options {
    /// The list is `xtask/mutants/<area>.txt`.
    area: String,
}

/// One planted fault.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) find: String,
    with: String,
    pub(crate) test: String,
}

/// Whether every fault is found.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let file = format!("xtask/mutants/{}.txt", options.area);
    let text = fs::read_to_string(workspace.root.join(&file))
        .with_context(|| format!("cannot read {file}"))?;
    let mutants = parse(&text).with_context(|| file.clone())?;
    let copy = workspace.target.join("mutants").join(&options.area);
    copy_sources(&workspace.root, &copy)?;
    let mut found = 0;
    for mutant in &mutants {
        let is_found = plant(workspace, &copy, mutant)?;
        found += usize::from(is_found);
        let verdict = if is_found { "found" } else { "NOT FOUND" };
        println!("{verdict:9}  {}", mutant.name);
    }
    println!("{found} of {} faults found", mutants.len());
    Ok(found == mutants.len())
}

/// Reads a list.
pub(crate) fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let lines = text.lines().map(str::trim_end);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (field, value) = line.split_once(": ").context("a line without a field")?;
        if field == "name" {
            mutants.push(Mutant::default());
        }
        let mutant = mutants.last_mut().context("the first field must be name")?;
        let place = match field {
            "name" => &mut mutant.name,
            "file" => &mut mutant.file,
            "find" => &mut mutant.find,
            "with" => &mut mutant.with,
            "test" => &mut mutant.test,
            _ => bail!("unknown field {field}"),
        };
        ensure!(place.is_empty(), "{field} twice");
        *place = value.to_owned();
    }
    for mutant in &mutants {
        let fields = [&mutant.file, &mutant.find, &mutant.with, &mutant.test];
        let is_whole = fields.iter().all(|field| !field.is_empty());
        ensure!(is_whole, "{} is not complete", mutant.name);
    }
    Ok(mutants)
}

/// Copies the files that git tracks from the working tree.
fn copy_sources(root: &Path, copy: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(root)
        .args(["ls-files", "-co", "--exclude-standard"]);
    for file in process::output(&mut list)?.lines() {
        let (from, to) = (root.join(file), copy.join(file));
        let Ok(text) = fs::read(&from) else {
            continue;
        };
        // An unchanged file keeps its modification time, so that cargo does not rebuild it.
        if fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        let folder = to.parent().context("a file without a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Plants one fault, runs its test and removes the fault again.
fn plant(workspace: &Workspace, copy: &Path, mutant: &Mutant) -> Result<bool> {
    let file = copy.join(&mutant.file);
    let whole = fs::read_to_string(&file).with_context(|| mutant.file.clone())?;
    let count = whole.matches(&mutant.find).count();
    let (name, find) = (&mutant.name, &mutant.find);
    ensure!(count == 1, "{name}: `{find}` is there {count} times");
    fs::write(&file, whole.replace(&mutant.find, &mutant.with))?;
    let outcome = try_out(workspace, copy, mutant);
    fs::write(&file, whole)?;
    outcome
}

fn try_out(workspace: &Workspace, copy: &Path, mutant: &Mutant) -> Result<bool> {
    let mut build = test_command(workspace, copy, mutant);
    process::run(build.arg("--no-run"))?;
    let mut test = limited(&test_command(workspace, copy, mutant));
    let status = test.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(!status.success())
}

/// The same command with a time limit, after which all its children are killed.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.arg(TIME).arg(command.get_program());
    limited.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

fn test_command(workspace: &Workspace, copy: &Path, mutant: &Mutant) -> Command {
    let mut command = workspace.cargo();
    // Cargo does not distinguish two copies of a workspace: in a shared target
    // folder the faults could end up in the tests of the real sources.
    let target = workspace.target.join("mutants").join("target");
    command.current_dir(copy).env("CARGO_TARGET_DIR", target);
    command.args(["test", "--quiet"]);
    command.args(mutant.test.split_whitespace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_block_by_block() {
        let text = "# why\n\nname: a\nfile: f\nfind: x: y\nwith: z\ntest: -p p\n\nname: b\nfile: g\nfind: q\nwith: r\ntest: t\n";
        let mutants = parse(text).unwrap();
        assert_eq!(mutants.len(), 2);
        assert_eq!(mutants[0].find, "x: y");
        assert!(parse("file: f\n").is_err());
        assert!(parse("name: a\nfile: f\n").is_err());
    }
}
