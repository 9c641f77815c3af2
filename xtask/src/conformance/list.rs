//! Reads a checklist: one numbered item per line.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

/// A requirement with a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// How the names of its tests begin, without the last underscore.
    pub(crate) id: String,
    /// Why it is counted separately, if it is.
    pub(crate) mark: Option<Mark>,
    pub(crate) title: String,
}

/// Why no test is required of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Later,
    /// A performance goal, which `steadfast bench` measures.
    Bench,
}

impl Mark {
    /// The word in the list.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mark::Later => "later",
            Mark::Bench => "bench",
        }
    }
}

/// Reads `<id> [mark] title` lines; empty lines and lines that begin with `#` are skipped.
pub(crate) fn parse(text: &str) -> Result<Vec<Item>> {
    let mut ids = BTreeSet::new();
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(item) = parse_item(line) else {
            bail!("line {}: expected `<id> [mark] title`: {line}", number + 1);
        };
        if !ids.insert(item.id.clone()) {
            bail!("line {}: {} is there twice", number + 1, item.id);
        }
        items.push(item);
    }
    Ok(items)
}

fn parse_item(line: &str) -> Option<Item> {
    let (id, rest) = line.split_once(char::is_whitespace)?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !id.chars().all(legal) || !id.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mark, title) = split_mark(rest.trim())?;
    if title.is_empty() {
        return None;
    }
    Some(Item {
        id: id.to_owned(),
        mark,
        title: title.to_owned(),
    })
}

/// The mark and what follows; nothing if the mark is unknown.
fn split_mark(rest: &str) -> Option<(Option<Mark>, &str)> {
    let Some(after) = rest.strip_prefix('[') else {
        return Some((None, rest));
    };
    let (word, title) = after.split_once(']')?;
    let mark = [Mark::Later, Mark::Bench]
        .into_iter()
        .find(|mark| mark.word() == word)?;
    Some((Some(mark), title.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_and_without_marks() {
        let text =
            "# comment\n\nc21 keys are ordered\nevents_13 [later] trims\nc22  [bench]  two nodes\n";
        let items = parse(text).unwrap();
        let marks: Vec<_> = items.iter().map(|item| item.mark).collect();
        assert_eq!(marks, [None, Some(Mark::Later), Some(Mark::Bench)]);
        assert_eq!(items[0].id, "c21");
        assert_eq!(items[1].title, "trims");
        assert_eq!(items[2].title, "two nodes");
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        for bad in ["c1", "c1 [soon] x", "c1 [later]", "C1 x", "seam_ x"] {
            let error = parse(&format!("c9 good\n{bad}\n")).unwrap_err().to_string();
            assert!(error.starts_with("line 2: expected"), "{bad}: {error}");
        }
        let error = parse("c1 a\nc1 b\n").unwrap_err().to_string();
        assert_eq!(error, "line 2: c1 is there twice");
    }
}
