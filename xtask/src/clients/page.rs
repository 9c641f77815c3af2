//! The page of clients, made from versions and scenarios.
//!
//! The text between two marks in `docs/reference/clients.md` is generated from the files
//! with versions, the tests and the table of SDKs. The group `house` compares it, and the
//! group `clients` requires that every scenario named there has passed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::counterparts;
use super::scenarios::{self, Results};
use super::sdks::{SDKS, Sdk};
use super::versions;
use crate::workspace::Workspace;

const PAGE: &str = "docs/reference/clients.md";
const BEGIN: &str = "<!-- made by `cargo xtask clients` -->\n";
const END: &str = "<!-- end of what is made -->\n";

/// Fails if the page does not match the versions and tests.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let page = read(&workspace.root.join(PAGE))?;
    if page != with_tables(&page, &tables(&workspace.root)?)? {
        bail!("{PAGE} does not match versions and tests of the clients: run `cargo xtask clients`");
    }
    Ok(())
}

/// Writes the page anew.
pub(crate) fn write(workspace: &Workspace) -> Result<bool> {
    let file = workspace.root.join(PAGE);
    let page = with_tables(&read(&file)?, &tables(&workspace.root)?)?;
    fs::write(&file, page).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(true)
}

/// Fails if a scenario that the page names has not passed.
pub(super) fn compare(workspace: &Workspace, results: &Results) -> Result<()> {
    let mut missing = Vec::new();
    for sdk in SDKS {
        if let Some((file, client)) = sdk.scenarios {
            let names = scenarios::of_client(&scenarios::source(&workspace.root, file)?, client);
            let left = names
                .iter()
                .filter(|name| !results.has_scenario(file, client, name));
            missing.extend(left.map(|name| format!("{client} {name}")));
        }
        let tests = sdk.tests.iter().flat_map(|(_, names)| names.iter());
        let left = tests.filter(|name| !results.has_test(name));
        missing.extend(left.map(|name| (*name).to_owned()));
    }
    if !missing.is_empty() {
        bail!("{PAGE} names what has not passed: {}", missing.join(", "));
    }
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn with_tables(page: &str, tables: &str) -> Result<String> {
    let marks = || format!("{PAGE} has lost its marks");
    let (before, rest) = page.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    Ok(format!("{before}{BEGIN}{tables}{END}{after}"))
}

fn tables(root: &Path) -> Result<String> {
    let mut text = String::new();
    let mut language = "";
    for sdk in SDKS {
        if sdk.language != language {
            language = sdk.language;
            write!(text, "\n## {language}\n")?;
            if let Some((all, own)) = counterparts::count(root, language)? {
                write!(
                    text,
                    "\n{language} runs {own} of the {all} scenarios of Python and JavaScript; [the list](../../interop/scenarios.txt) gives the reason for each of the others.\n"
                )?;
            }
        }
        table(&mut text, root, sdk).with_context(|| format!("{language}, {}", sdk.service))?;
    }
    text.push('\n');
    Ok(text)
}

fn table(text: &mut String, root: &Path, sdk: &Sdk) -> Result<()> {
    write!(
        text,
        "\n### {}: {}\n\n| | |\n|---|---|\n",
        sdk.language, sdk.service
    )?;
    for (file, packages) in sdk.packages {
        let path = root.join("interop").join(file);
        let found = read(&path)?;
        for package in *packages {
            let version = versions::version(&path, &found, package);
            let version = version.with_context(|| format!("no {package} in {file}"))?;
            writeln!(text, "| Package | `{package}` {version} |")?;
        }
    }
    writeln!(text, "| Works | {} |", works(root, sdk)?.join("; "))?;
    let lacks = if sdk.lacks.is_empty() {
        "nothing that was tried"
    } else {
        sdk.lacks
    };
    writeln!(text, "| Does not work | {lacks} |")?;
    writeln!(text, "| TLS and certificates | {} |", sdk.tls)?;
    Ok(())
}

/// The scenarios of an SDK, in words.
fn works(root: &Path, sdk: &Sdk) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if let Some((file, client)) = sdk.scenarios {
        let names = scenarios::of_client(&scenarios::source(root, file)?, client);
        if names.is_empty() {
            bail!("no scenarios of {client} in {file}");
        }
        found.extend(names.iter().map(|name| words(name)));
    }
    for (file, names) in sdk.tests {
        let source = scenarios::source(root, file)?;
        for name in *names {
            let in_table = format!("\n    {name}: ");
            if !source.contains(&format!("fn {name}(")) && !source.contains(&in_table) {
                bail!("no test {name} in {file}");
            }
            found.push(words(name));
        }
    }
    Ok(found)
}

/// `everyKindOfPosition` and `events_21_every_kind_of_position` in words.
fn words(name: &str) -> String {
    let mut text = String::new();
    for own in name.chars() {
        match own {
            '_' => text.push(' '),
            own if own.is_uppercase() => {
                text.push(' ');
                text.extend(own.to_lowercase());
            }
            own => text.push(own),
        }
    }
    let is_number = |word: &str| word.chars().all(|own| own.is_ascii_digit());
    let mut all: Vec<_> = text.split_whitespace().collect();
    // The items of a checklist, which stand in front.
    if all.get(1).is_some_and(|word| is_number(word)) {
        all.remove(0);
        while all.first().is_some_and(|word| is_number(word)) {
            all.remove(0);
        }
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words() {
        assert_eq!(words("everyKindOfPosition"), "every kind of position");
        assert_eq!(words("events_41_42_processors_share"), "processors share");
        assert_eq!(words("batch_of_500"), "batch of 500");
    }

    #[test]
    fn only_what_is_between_the_marks_is_made() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let made = with_tables(&page, "new\n").unwrap();
        assert_eq!(made, format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(with_tables("nothing", "new").is_err());
    }

    #[test]
    fn the_page_names_what_did_not_run() {
        let workspace = Workspace::find().unwrap();
        let error = compare(&workspace, &Results::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Python properties"), "{text}");
    }
}
