//! Block lists, in requests and responses.

use std::fmt::Write as _;

use super::xml::{HEAD, element};

/// The blocks among which a listed block is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSource {
    /// The uncommitted blocks, then the committed ones.
    Latest,
    Committed,
    Uncommitted,
}

/// The text is not a valid block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockListError;

/// Parses `<BlockList><Latest>id</Latest>..</BlockList>`: sources and ids, in order.
pub fn parse(text: &str) -> Result<Vec<(BlockSource, String)>, BlockListError> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut found = Vec::new();
    let mut is_inside = false;
    while let Some((tag, is_empty)) = next_tag(&mut rest)? {
        match (tag.to_ascii_lowercase().as_str(), is_inside) {
            ("blocklist", false) if is_empty => return ended(rest).map(|()| found),
            ("blocklist", false) => is_inside = true,
            ("/blocklist", true) => return ended(rest).map(|()| found),
            (_, true) if is_empty => return Err(BlockListError),
            (name, true) => {
                let source = source(name).ok_or(BlockListError)?;
                let (id, behind) = rest.split_once('<').ok_or(BlockListError)?;
                let (end, behind) = behind.split_once('>').ok_or(BlockListError)?;
                let end = end.trim_end().strip_prefix('/').ok_or(BlockListError)?;
                if !end.eq_ignore_ascii_case(name) || id.trim().is_empty() {
                    return Err(BlockListError);
                }
                found.push((source, id.trim().to_owned()));
                rest = behind;
            }
            _ => return Err(BlockListError),
        }
    }
    Err(BlockListError)
}

/// The name of the next tag, and whether its element is empty; declarations and
/// comments are skipped. Only white space is allowed between tags.
fn next_tag<'a>(rest: &mut &'a str) -> Result<Option<(&'a str, bool)>, BlockListError> {
    loop {
        let text = rest.trim_start();
        if text.is_empty() {
            return Ok(None);
        }
        let (end, is_skipped) = match text {
            comment if comment.starts_with("<!--") => ("-->", true),
            declaration if declaration.starts_with("<?") => ("?>", true),
            tag if tag.starts_with('<') => (">", false),
            _ => return Err(BlockListError),
        };
        let (tag, behind) = text.split_once(end).ok_or(BlockListError)?;
        *rest = behind;
        if !is_skipped {
            let tag = tag.trim_start_matches('<').trim();
            let bare = tag.strip_suffix('/');
            let name = bare.unwrap_or(tag).split_ascii_whitespace().next();
            return Ok(Some((name.unwrap_or(""), bare.is_some())));
        }
    }
}

fn source(name: &str) -> Option<BlockSource> {
    match name {
        "latest" => Some(BlockSource::Latest),
        "committed" => Some(BlockSource::Committed),
        "uncommitted" => Some(BlockSource::Uncommitted),
        _ => None,
    }
}

fn ended(rest: &str) -> Result<(), BlockListError> {
    let mut rest = rest;
    match next_tag(&mut rest)? {
        None => Ok(()),
        Some(_) => Err(BlockListError),
    }
}

/// Writes the blocks of a blob, with id and length; a list that was not requested is
/// `None`.
pub fn show(committed: Option<&[(&str, u64)]>, uncommitted: Option<&[(&str, u64)]>) -> String {
    let mut text = format!("{HEAD}<BlockList>");
    let lists = [
        ("CommittedBlocks", committed),
        ("UncommittedBlocks", uncommitted),
    ];
    for (name, blocks) in lists {
        let Some(blocks) = blocks else {
            continue;
        };
        text.extend(["<", name, ">"]);
        for (id, length) in blocks {
            text.push_str("<Block>");
            element(&mut text, "Name", id);
            // Writing to a string cannot fail.
            let _ = write!(text, "<Size>{length}</Size></Block>");
        }
        text.extend(["</", name, ">"]);
    }
    text + "</BlockList>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_clients_are_read() {
        // Azure.Storage.Blobs for .NET.
        let dotnet = "\u{feff}<BlockList><Latest>AAA=</Latest><Latest>AQA=</Latest></BlockList>";
        let latest = |id: &str| (BlockSource::Latest, id.to_owned());
        assert_eq!(parse(dotnet).unwrap(), [latest("AAA="), latest("AQA=")]);
        // azure-storage-blob for Python.
        let python = "<?xml version='1.0' encoding='utf-8'?>\n<BlockList>\n \
                      <Committed>YQ==</Committed><Uncommitted>Yg==</Uncommitted></BlockList>\n";
        let wanted = [
            (BlockSource::Committed, "YQ==".to_owned()),
            (BlockSource::Uncommitted, "Yg==".to_owned()),
        ];
        assert_eq!(parse(python).unwrap(), wanted);
        for empty in [
            "<BlockList/>",
            "<BlockList />",
            "<BlockList></BlockList>",
            "<!-- none --><BlockList xmlns=\"\"> </BlockList >",
        ] {
            assert_eq!(parse(empty), Ok(Vec::new()), "{empty}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "YQ==",
            "<BlockList>",
            "<Blocks></Blocks>",
            "<Blocks />",
            "<BlockList><Latest /></BlockList>",
            "<BlockList><Block>YQ==</Block></BlockList>",
            "<BlockList><Latest>YQ==</BlockList>",
            "<BlockList><Latest>YQ==</Committed></BlockList>",
            "<BlockList><Latest></Latest></BlockList>",
            "<BlockList></BlockList><BlockList></BlockList>",
            "<BlockList></BlockList>x",
        ] {
            assert_eq!(parse(text), Err(BlockListError), "{text}");
        }
    }

    #[test]
    fn only_the_lists_that_were_asked_for_are_shown() {
        let blocks = [("YQ==", 5)];
        let one = "<Block><Name>YQ==</Name><Size>5</Size></Block>";
        assert_eq!(
            show(Some(&blocks), None),
            format!("{HEAD}<BlockList><CommittedBlocks>{one}</CommittedBlocks></BlockList>")
        );
        assert!(show(Some(&[]), Some(&blocks)).ends_with(&format!(
            "<CommittedBlocks></CommittedBlocks><UncommittedBlocks>{one}\
                 </UncommittedBlocks></BlockList>"
        )));
    }
}
