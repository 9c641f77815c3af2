//! `steadfast explain`: the page of an error code.
//!
//! The pages are those of the documentation, so they also work offline.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::{out, print_value};

include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// The code: STF-2001, or 2001
    code: String,
}

/// Prints the page of a code.
pub(crate) fn run(arguments: &ExplainArguments, globals: &Globals) -> Result<()> {
    let code = arguments.code.to_uppercase();
    let number = code.strip_prefix("STF-").unwrap_or(&code);
    let page = ERROR_PAGES.iter().find(|(known, _)| *known == number);
    let Some((number, text)) = page else {
        let message = format!("there is no error code '{}'", arguments.code);
        return Err(CommandError::NotFound(message).into());
    };
    if globals.output().is_structured() {
        let page = json!({"code": format!("STF-{number}"), "text": text});
        return print_value(&page, globals.output());
    }
    out(&text.trim_end())
}
