//! A configuration file, and the lines of what it says.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, Error as TomlError};

use super::error::{Error, ErrorKind};

/// The text of a configuration file.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    text: String,
}

/// Errors of a file, each with its place in the text.
#[derive(Default)]
pub(super) struct FileErrors(Vec<(usize, Error)>);

impl FileErrors {
    pub(super) fn push(&mut self, span: &Range<usize>, error: Error) {
        self.0.push((span.start, error));
    }

    /// The errors in the order of the text.
    pub(super) fn into_sorted(mut self) -> impl Iterator<Item = Error> {
        self.0.sort_by_key(|(start, _)| *start);
        self.0.into_iter().map(|(_, error)| error)
    }
}

impl ConfigFile {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|error| {
            let file = path.display().to_string();
            let why = error.to_string();
            Error::new(ErrorKind::File { file, why })
        })?;
        let path = path.to_owned();
        Ok(Self { path, text })
    }

    /// Its tables; if it is not TOML, every line that has a mistake. The messages of the
    /// parser contain no text of the file.
    pub(super) fn tables(&self) -> Result<DeTable<'_>, Vec<Error>> {
        let (table, errors): (Spanned<DeTable<'_>>, Vec<TomlError>) =
            DeTable::parse_recoverable(&self.text);
        let mut lines: Vec<_> = errors
            .iter()
            .map(|error| (error.span().map(|span| self.line(&span)), error.message()))
            .collect();
        // What follows the first mistake of a line is often no mistake.
        lines.sort_by_key(|(line, _)| *line);
        lines.dedup_by_key(|(line, _)| *line);
        let unreadable = |(line, message): (Option<usize>, &str)| {
            let line = line.map(|line| format!("line {line}: "));
            Error::new(ErrorKind::File {
                file: self.path.display().to_string(),
                why: format!("{}{message}", line.unwrap_or_default()),
            })
        };
        if lines.is_empty() {
            return Ok(table.into_inner());
        }
        Err(lines.into_iter().map(unreadable).collect())
    }

    /// File and line of a part of its text.
    pub(super) fn place(&self, span: &Range<usize>) -> String {
        format!("{}:{}", self.path.display(), self.line(span))
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        before.filter(|byte| **byte == b'\n').count() + 1
    }
}
