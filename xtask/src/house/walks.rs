//! The walks through the code are short, and as documented.
//!
//! A walk is a list in the documentation of a crate: the files that one request passes,
//! in order, each with a function that takes it further. The list is checked against the
//! sources, and its length against a goal.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::tree::Tree;

/// How many files a walk passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WalkLength {
    /// Files that branch on the content of the request or on a state.
    deciding: usize,
    all: usize,
}

/// A walk, and how short it is to be.
struct WalkGoal {
    walk: &'static str,
    document: &'static str,
    most: WalkLength,
    /// Its length as long as it is longer than the goal. The documentation says why.
    missed: Option<WalkLength>,
}

const GOALS: &[WalkGoal] = &[
    WalkGoal {
        walk: "one AMQP event",
        document: "crates/eventhubs/src/lib.rs",
        most: WalkLength {
            deciding: 11,
            all: 25,
        },
        missed: Some(WalkLength {
            deciding: 15,
            all: 29,
        }),
    },
    WalkGoal {
        walk: "one SignalR send",
        document: "crates/realtime/src/lib.rs",
        most: WalkLength {
            deciding: 12,
            all: 12,
        },
        missed: None,
    },
    WalkGoal {
        walk: "one entity signal",
        document: "crates/durable/src/lib.rs",
        most: WalkLength {
            deciding: 12,
            all: 24,
        },
        missed: Some(WalkLength {
            deciding: 22,
            all: 34,
        }),
    },
];

/// What is wrong with the walks.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for goal in GOALS {
        findings.extend(check_walk(tree, goal)?);
    }
    Ok(findings)
}

/// One line of a walk.
#[derive(Debug, PartialEq, Eq)]
struct WalkStep {
    file: String,
    decides: bool,
    /// Names that are defined in the file and used by an earlier one.
    called: Vec<String>,
    /// Names of queues that an earlier file fills and this one empties.
    taken: Vec<String>,
}

fn check_walk(tree: &Tree, goal: &WalkGoal) -> Result<Vec<String>> {
    let text = tree.text(Path::new(goal.document))?.unwrap_or_default();
    let section = section(&text, goal.walk);
    let mut findings = Vec::new();
    let mut steps = Vec::new();
    for line in &section {
        match step(line) {
            Some(Ok(step)) => steps.push(step),
            Some(Err(why)) => findings.push(format!("{why}: {line}")),
            None => {}
        }
    }
    if steps.is_empty() {
        findings.push("the walk is not documented".to_owned());
    }
    findings.extend(misled(tree, &steps)?);
    findings.extend(lengthy(goal, &steps, &section));
    let place = |finding| format!("{}: {}: {finding}", goal.document, goal.walk);
    Ok(findings.into_iter().map(place).collect())
}

/// The lines below the heading of a walk, up to the next heading.
fn section(text: &str, walk: &str) -> Vec<String> {
    let prose = |line: &str| {
        let line = line.strip_prefix("//!").unwrap_or(line);
        line.trim().to_owned()
    };
    let heading = format!("# Walk: {walk}");
    let lines = text.lines().map(prose);
    let lines = lines.skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with("# ")).collect()
}

/// The step on a line; `None` for prose.
fn step(line: &str) -> Option<Result<WalkStep, &'static str>> {
    let rest = line.strip_prefix("- ")?;
    let (decides, rest) = match (rest.strip_prefix("decides "), rest.strip_prefix("passes ")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Some(Err("neither `decides` nor `passes`")),
    };
    let mut parts = rest.split('`');
    let (Some(""), Some(file)) = (parts.next(), parts.next()) else {
        return Some(Err("no file"));
    };
    let mut step = WalkStep {
        file: file.to_owned(),
        decides,
        called: Vec::new(),
        taken: Vec::new(),
    };
    while let (Some(before), Some(name)) = (parts.next(), parts.next()) {
        let names = if before.ends_with("from ") {
            &mut step.taken
        } else {
            &mut step.called
        };
        names.push(name.to_owned());
    }
    if step.called.is_empty() && step.taken.is_empty() {
        return Some(Err("no function"));
    }
    Some(Ok(step))
}

/// Steps that do not lead from the ones before them.
fn misled(tree: &Tree, steps: &[WalkStep]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let (mut seen, mut earlier) = (BTreeSet::new(), String::new());
    for step in steps {
        let file = &step.file;
        if !seen.insert(file) {
            findings.push(format!("{file} is listed twice"));
        }
        let Some(text) = tree.text(Path::new(file))? else {
            findings.push(format!("{file} does not exist"));
            continue;
        };
        let code = code(&text);
        let is_first = earlier.is_empty();
        for name in &step.called {
            if !is_defined(&code, name) {
                findings.push(format!("{file} does not define `{name}`"));
            } else if !is_first && !is_used(&earlier, name) {
                findings.push(format!("no earlier file calls `{name}` of {file}"));
            }
        }
        for name in &step.taken {
            if !words(&code).any(|word| word == name) || !words(&earlier).any(|word| word == name) {
                findings.push(format!("`{name}` does not lead to {file}"));
            }
        }
        earlier.push_str(&code);
    }
    Ok(findings)
}

/// Whether a walk is longer than its goal, or than it is known to be.
fn lengthy(goal: &WalkGoal, steps: &[WalkStep], section: &[String]) -> Vec<String> {
    let length = WalkLength {
        deciding: steps.iter().filter(|step| step.decides).count(),
        all: steps.len(),
    };
    let WalkLength { deciding, all } = goal.most;
    let fits = length.deciding <= deciding && length.all <= all;
    let counts = format!("{} files decide, {} in all", length.deciding, length.all);
    let goals = format!("the goal is {deciding} and {all}");
    match goal.missed {
        None if fits => Vec::new(),
        None => vec![format!("{counts}; {goals}")],
        Some(known) if fits || length != known => {
            vec![format!("{counts}; the record of the missed goal differs")]
        }
        Some(_) => {
            println!("    missed: {}: {counts}; {goals}", goal.walk);
            let is_told = section.iter().any(|line| line.starts_with("Missed:"));
            let untold = "the goal is missed, and no line `Missed:` says why";
            (!is_told).then(|| untold.to_owned()).into_iter().collect()
        }
    }
}

/// A source without comments and tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let mut code = String::new();
    for line in text[..end].lines() {
        code.push_str(line.split("//").next().unwrap_or(line));
        code.push('\n');
    }
    code
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Whether the file defines a function of that name.
fn is_defined(code: &str, name: &str) -> bool {
    code.match_indices("fn ").any(|(at, _)| {
        let rest = &code[at + 3..];
        rest.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['(', '<']))
    })
}

/// Whether a function of that name is called, or named by its path.
fn is_used(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_call = after.starts_with(['(', ':']) || before.ends_with("::");
        !before.ends_with(is_word)
            && !before.ends_with("fn ")
            && !after.starts_with(is_word)
            && is_call
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    const FIRST: &str = "pub fn serve() {\n    second::read(1); queue.push(2);\n}\n";
    const SECOND: &str = "//! Reads.\nfn read(one: u8) {\n    take();\n}\n";
    const THIRD: &str = "fn run() { queue.pop() }\n#[cfg(test)]\nmod tests { fn take() {} }\n";

    const GOAL: WalkGoal = WalkGoal {
        walk: "one request",
        document: "lib.rs",
        most: WalkLength {
            deciding: 1,
            all: 3,
        },
        missed: None,
    };

    fn found(goal: &WalkGoal, list: &[&str]) -> Vec<String> {
        let list: Vec<_> = list.iter().map(|line| format!("//! {line}\n")).collect();
        let text = format!(
            "//! # Walk: one request\n//!\n{}//!\n//! # Tests\n//! - passes `gone.rs`: `x`\n",
            list.concat()
        );
        let (_folder, tree) = planted(&[
            ("lib.rs", text.as_str()),
            ("first.rs", FIRST),
            ("second.rs", SECOND),
            ("third.rs", THIRD),
        ]);
        check_walk(&tree, goal).unwrap()
    }

    const GOOD: [&str; 3] = [
        "- decides `first.rs`: `serve`, whether it is read",
        "- passes `second.rs`: `read`",
        "- passes `third.rs`: from `queue`",
    ];

    #[test]
    fn a_walk_that_leads_from_file_to_file_is_fine() {
        assert!(found(&GOAL, &GOOD).is_empty());
    }

    #[test]
    fn a_walk_that_is_not_documented_is_found() {
        let findings = found(&GOAL, &["Some prose."]);
        assert_eq!(
            findings,
            ["lib.rs: one request: the walk is not documented"]
        );
    }

    #[test]
    fn a_line_that_does_not_say_what_the_file_does_is_found() {
        let lines = [
            GOOD[0],
            "- `second.rs`: `read`",
            "- passes second",
            "- passes `a.rs`",
        ];
        let findings = found(&GOAL, &lines);
        assert_eq!(findings.len(), 3, "{findings:?}");
    }

    #[test]
    fn a_file_that_is_gone_or_comes_twice_is_found() {
        let findings = found(&GOAL, &[GOOD[0], "- passes `gone.rs`: `read`", GOOD[0]]);
        assert!(
            findings[0].ends_with("gone.rs does not exist"),
            "{findings:?}"
        );
        assert!(
            findings[1].ends_with("first.rs is listed twice"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_function_of_another_file_is_found() {
        let lines = [
            GOOD[0],
            "- passes `second.rs`: `run`",
            "- passes `third.rs`: `take`",
        ];
        let findings = found(&GOAL, &lines);
        assert!(
            findings[0].ends_with("second.rs does not define `run`"),
            "{findings:?}"
        );
        // Its test does.
        assert!(
            findings[1].ends_with("third.rs does not define `take`"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_file_that_no_earlier_one_leads_to_is_found() {
        let lines = [
            GOOD[0],
            "- passes `third.rs`: `run`",
            "- passes `second.rs`: `read`, from `one`",
        ];
        let findings = found(&GOAL, &lines);
        assert!(
            findings[0].ends_with("no earlier file calls `run` of third.rs"),
            "{findings:?}"
        );
        assert!(
            findings[1].ends_with("`one` does not lead to second.rs"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_walk_over_its_goal_is_found() {
        let lines = [GOOD[0], "- decides `second.rs`: `read`", GOOD[2]];
        let findings = found(&GOAL, &lines);
        assert_eq!(
            findings,
            ["lib.rs: one request: 2 files decide, 3 in all; the goal is 1 and 3"]
        );
        let short = WalkGoal {
            most: WalkLength {
                deciding: 1,
                all: 2,
            },
            ..GOAL
        };
        assert_eq!(found(&short, &GOOD).len(), 1);
    }

    #[test]
    fn a_missed_goal_needs_its_record_and_a_reason() {
        let length = |deciding, all| WalkLength { deciding, all };
        let missed = |known| WalkGoal {
            most: length(1, 2),
            missed: Some(known),
            ..GOAL
        };
        let told = [&GOOD[..], &["", "Missed: the third file is needed."]].concat();
        assert!(found(&missed(length(1, 3)), &told).is_empty());
        let untold = found(&missed(length(1, 3)), &GOOD);
        assert!(untold[0].contains("no line `Missed:`"), "{untold:?}");
        // Shorter or longer than the record, or no longer missed.
        for known in [length(1, 4), length(0, 3)] {
            assert_eq!(found(&missed(known), &told).len(), 1);
        }
        let met = WalkGoal {
            missed: Some(length(1, 3)),
            ..GOAL
        };
        assert_eq!(found(&met, &told).len(), 1);
    }
}
