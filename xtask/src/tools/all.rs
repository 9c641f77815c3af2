//! Installs every tool and tries it.

use anyhow::{Context, Result};

use super::{browser, go, maven, node, postgres, python};
use crate::workspace::Workspace;

/// A tool and how to install and try it.
struct Tool {
    name: &'static str,
    try_out: fn(&Workspace) -> Result<()>,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "python",
        try_out: python::try_out,
    },
    Tool {
        name: "node",
        try_out: node::try_out,
    },
    Tool {
        name: "maven",
        try_out: maven::try_out,
    },
    Tool {
        name: "postgres",
        try_out: postgres::try_out,
    },
    Tool {
        name: "browser",
        try_out: browser::try_out,
    },
    Tool {
        name: "go",
        try_out: go::try_out,
    },
];

/// Stops at the first tool that cannot be installed or does not work.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for tool in TOOLS {
        (tool.try_out)(workspace).with_context(|| tool.name.to_owned())?;
        println!("{}: ok", tool.name);
    }
    Ok(())
}
