//! A publication: one event, or a batch of them.

use super::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use super::error::{Malformed, Result};
use super::event::Notes;
use super::message::{Part, Sections};

/// Iterates over the messages of a publication.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    outer: &'a [u8],
    notes: Notes<'a>,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Single(bool),
    Batch(Sections<'a>),
}

impl<'a> Messages<'a> {
    /// A message of one of the two formats.
    pub fn open(message: &'a [u8], format: u32) -> Result<Self> {
        let mut sections = Sections::new(message);
        let mut notes = Notes::default();
        while let Some(section) = sections.next()? {
            if section.part == Part::MessageAnnotations {
                notes = Notes::read(section.map()?)?;
                break;
            }
        }
        let source = match format {
            FORMAT_EVENT => Source::Single(false),
            FORMAT_BATCH => Source::Batch(Sections::new(message)),
            _ => return Err(Malformed::new("an unknown message format")),
        };
        Ok(Self {
            outer: message,
            notes,
            source,
        })
    }

    /// The annotations of the whole publication.
    pub fn notes(&self) -> Notes<'a> {
        self.notes
    }

    /// The next message, all its sections.
    #[expect(clippy::should_implement_trait, reason = "a fallible iterator")]
    pub fn next(&mut self) -> Result<Option<&'a [u8]>> {
        match &mut self.source {
            Source::Single(done) => {
                let first = !std::mem::replace(done, true);
                Ok(first.then_some(self.outer))
            }
            Source::Batch(sections) => {
                while let Some(section) = sections.next()? {
                    match section.part {
                        Part::Data => return section.data().map(Some),
                        Part::Sequence | Part::Value => {
                            return Err(Malformed::new("a batch of something else than data"));
                        }
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }
}
