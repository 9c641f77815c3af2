//! Help with commands in groups, which clap does not offer.

use std::env;
use std::fmt::Write as _;
use std::io::IsTerminal;

use clap::{ColorChoice, CommandFactory};

use crate::command::Arguments;
use crate::output::OutputFormat;

/// The commands by group, in the order of help.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Server",
        &[
            "dev", "serve", "status", "top", "logs", "drain", "reload", "doctor", "explain",
            "audit", "time",
        ],
    ),
    (
        "Services",
        &[
            "eventhub", "workflow", "entity", "taskhub", "hub", "job", "state", "blob",
        ],
    ),
    ("Stores and nodes", &["store", "cluster"]),
    ("Access and settings", &["key", "context", "config"]),
    ("Tools", &["bench", "completions", "man"]),
];

const AFTER: &str = "\
`steadfast <command> --help` shows verbs, options, examples.

Exit codes:
  0  success
  1  failure
  2  invalid arguments or settings
  3  not found
  4  time-out
  5  an orchestration that did not complete";

/// The width of a name with the space behind it.
const NAMES: usize = 15;

/// The width of help where there is no terminal.
const WIDTH: usize = 100;

/// The largest width: longer lines are hard to read.
const LARGEST_WIDTH: usize = 120;

/// The command with its help.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}\n\n{AFTER}\n",
        groups(&command, width())
    );
    let colors = if is_plain() {
        ColorChoice::Never
    } else {
        ColorChoice::Auto
    };
    command
        .help_template(template)
        .max_term_width(LARGEST_WIDTH)
        .subcommand_value_name("COMMAND")
        .color(colors)
}

/// All groups, with the description of each command.
fn groups(command: &clap::Command, width: usize) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{group}:");
        for name in *names {
            // A command of a feature that is off does not exist.
            let Some(command) = command.find_subcommand(name) else {
                continue;
            };
            let about = command.get_about();
            let about = about.map(ToString::to_string).unwrap_or_default();
            let lines = wrapped(&about, width.saturating_sub(NAMES));
            let mut label = *name;
            for line in lines {
                let _ = writeln!(text, "  {label:0$}{line}", NAMES - 2);
                label = "";
            }
        }
        text.push('\n');
    }
    text
}

/// A text in lines of a width; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.len() - 1;
        if !lines[line].is_empty() && lines[line].len() + 1 + word.len() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !lines[line].is_empty() {
            lines[line].push(' ');
        }
        lines[line].push_str(word);
    }
    lines
}

/// The width of the terminal, or what `COLUMNS` says.
fn width() -> usize {
    let stdout = std::io::stdout();
    let terminal = stdout
        .is_terminal()
        .then(|| rustix::termios::tcgetwinsize(&stdout).ok());
    let terminal = terminal.flatten().map(|size| usize::from(size.ws_col));
    let variable = || env::var("COLUMNS").ok()?.parse().ok();
    let width = terminal.or_else(variable);
    width
        .filter(|width| *width > NAMES)
        .unwrap_or(WIDTH)
        .min(LARGEST_WIDTH)
}

/// Whether colors are turned off.
fn is_plain() -> bool {
    env::args_os().any(|argument| argument == "--no-color")
}

/// The output format on a command line that cannot be parsed.
pub(crate) fn requested_format() -> OutputFormat {
    let arguments = env::args_os().map(|one| one.to_string_lossy().into_owned());
    let arguments: Vec<_> = arguments.collect();
    let requests = |name: &str| {
        let pairs = arguments.windows(2);
        let is_apart = pairs
            .into_iter()
            .any(|pair| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == name);
        let joined = [
            format!("-o{name}"),
            format!("-o={name}"),
            format!("--output={name}"),
        ];
        is_apart || arguments.iter().any(|one| joined.contains(one))
    };
    if requests("json") || arguments.iter().any(|one| one == "--json") {
        OutputFormat::Json
    } else if requests("yaml") {
        OutputFormat::Yaml
    } else {
        OutputFormat::Table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_stands_in_one_group() {
        let command = Arguments::command();
        let mut shown: Vec<_> = command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<_> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        super::command().debug_assert();
    }

    #[test]
    fn lines_are_no_longer_than_the_width() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("everything", 4), ["everything"]);
    }
}
