//! A publication: one event, or a batch of them.

use super::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use super::error::{AmqpDecodeError, Result};
use super::event::PublishAnnotations;
use super::message::{MessageSections, SectionKind};

/// Iterates over the messages of a publication.
#[derive(Clone, Debug)]
pub struct BatchMessages<'a> {
    outer: &'a [u8],
    notes: PublishAnnotations<'a>,
    source: MessageSource<'a>,
}

#[derive(Clone, Debug)]
enum MessageSource<'a> {
    Single(bool),
    Batch(MessageSections<'a>),
}

impl<'a> BatchMessages<'a> {
    /// A message of one of the two formats.
    pub fn open(message: &'a [u8], format: u32) -> Result<Self> {
        let mut sections = MessageSections::new(message);
        let mut notes = PublishAnnotations::default();
        while let Some(section) = sections.next()? {
            if section.part == SectionKind::MessageAnnotations {
                notes = PublishAnnotations::read(section.map()?)?;
                break;
            }
        }
        let source = match format {
            FORMAT_EVENT => MessageSource::Single(false),
            FORMAT_BATCH => MessageSource::Batch(MessageSections::new(message)),
            _ => return Err(AmqpDecodeError::new("an unknown message format")),
        };
        Ok(Self {
            outer: message,
            notes,
            source,
        })
    }

    /// The annotations of the whole publication.
    pub fn notes(&self) -> PublishAnnotations<'a> {
        self.notes
    }

    /// The next message, all its sections.
    #[expect(clippy::should_implement_trait, reason = "a fallible iterator")]
    pub fn next(&mut self) -> Result<Option<&'a [u8]>> {
        match &mut self.source {
            MessageSource::Single(done) => {
                let first = !std::mem::replace(done, true);
                Ok(first.then_some(self.outer))
            }
            MessageSource::Batch(sections) => {
                while let Some(section) = sections.next()? {
                    match section.part {
                        SectionKind::Data => return section.data().map(Some),
                        SectionKind::Sequence | SectionKind::Value => {
                            return Err(AmqpDecodeError::new(
                                "a batch of something else than data",
                            ));
                        }
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }
}
