//! Lists that the server returns page by page.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use reqwest::Method;
use serde_json::Value;

use crate::output::{Page, PageArguments, display_value, note};
use crate::server_client::{ServerClient, encoded};

/// Rows of a paged list; `name` is the name of the list in the response.
pub(crate) fn rows_by_page(
    remote: &ServerClient,
    path: &str,
    name: &str,
    page: &PageArguments,
) -> Result<Page> {
    let mut missing = BTreeSet::new();
    let page = page.fetch(|cursor, limit| {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut path = format!("{path}{separator}limit={limit}");
        if let Some(cursor) = cursor {
            path += &format!("&cursor={}", encoded(cursor));
        }
        let answer: Value = remote.request(Method::GET, &path, None)?;
        let silent = answer["missing"].as_array().into_iter().flatten();
        missing.extend(silent.map(display_value));
        Ok(Page {
            rows: rows(&answer, name)?.clone(),
            next: answer["next"].as_str().map(str::to_owned),
        })
    })?;
    for node in missing {
        note(&format!(
            "the node '{node}' did not answer; its part is missing"
        ));
    }
    Ok(page)
}

/// A list of rows in a response.
pub(crate) fn rows<'a>(answer: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    let rows = answer[name].as_array();
    rows.ok_or_else(|| anyhow!("the server's response has no '{name}'"))
}

/// Deletes the resource at a path.
pub(crate) fn delete(remote: &ServerClient, path: &str) -> Result<()> {
    let _: Value = remote.request(Method::DELETE, path, None)?;
    Ok(())
}
