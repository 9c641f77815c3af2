//! Runs every check of the house and prints what it found.

use anyhow::{Result, bail};

use super::tree::Tree;
use super::{
    bodies, codes, documents, faults, features, header, layers, leftovers, names, paths, profile,
    ring, walks, words, workflow,
};
use crate::workspace::Workspace;
use crate::{clients, protos};

/// A rule and how to find what breaks it.
struct Rule {
    name: &'static str,
    find: fn(&Workspace, &Tree) -> Result<Vec<String>>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "no ring of imports",
        find: |workspace, _| ring::check(workspace),
    },
    Rule {
        name: "arrows point down",
        find: |workspace, _| layers::check(workspace),
    },
    Rule {
        name: "a feature that is off leaves its dependencies out",
        find: |workspace, _| features::check(workspace),
    },
    Rule {
        name: "our own crates are quick to build",
        find: |workspace, _| profile::check(workspace),
    },
    Rule {
        name: "files say what they are for",
        find: |_, tree| header::check(tree),
    },
    Rule {
        name: "every error code has a page",
        find: |_, tree| codes::check(tree),
    },
    Rule {
        name: "no path of one machine",
        find: |_, tree| paths::check(tree),
    },
    Rule {
        name: "one meaning per name, and types are nouns",
        find: |_, tree| names::check(tree),
    },
    Rule {
        name: "no banned word",
        find: |_, tree| words::check(tree),
    },
    Rule {
        name: "documents name files that are there",
        find: |_, tree| documents::check(tree),
    },
    Rule {
        name: "bodies are read in the frame",
        find: |_, tree| bodies::check(tree),
    },
    Rule {
        name: "no leftovers",
        find: |_, tree| leftovers::check(tree),
    },
    Rule {
        name: "the page of clients matches their versions and tests",
        find: |workspace, _| {
            let wrong = clients::check_page(workspace).err();
            Ok(wrong
                .map(|error| format!("{error:#}"))
                .into_iter()
                .collect())
        },
    },
    Rule {
        name: "generated files are what their interface generates",
        find: |workspace, _| protos::check(workspace),
    },
    Rule {
        name: "Java and Go run each scenario of other clients, or say why not",
        find: |workspace, _| clients::check_counterparts(workspace),
    },
    Rule {
        name: "planted faults fit the sources",
        find: |_, tree| faults::check(tree),
    },
    Rule {
        name: "walks through the code are short, and as documented",
        find: |_, tree| walks::check(tree),
    },
    Rule {
        name: "the workflow runs every group once",
        find: |_, tree| workflow::check(tree),
    },
];

/// Fails if any rule is broken, after printing all that break one.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let tree = Tree::tracked(&workspace.root)?;
    let mut count = 0;
    for rule in RULES {
        let findings = (rule.find)(workspace, &tree)?;
        let result = if findings.is_empty() { "ok" } else { "BROKEN" };
        println!("{}: {result}", rule.name);
        for finding in &findings {
            println!("    {finding}");
        }
        count += findings.len();
    }
    if count > 0 {
        bail!("{count} findings");
    }
    Ok(())
}
