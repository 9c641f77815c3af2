//! Requests to `$cbs` and `$management`, and replies.

use super::code::descriptor;
use super::error::Result;
use super::message::{MessageSections, SectionKind};
use super::scan::EncodedValue;
use super::value::{AmqpValue, ItemReader};
use super::write;

/// The fields of a request that its node reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request<'a> {
    /// Kept as received: the reply must repeat it with its type.
    pub id: EncodedValue<'a>,
    pub reply_to: Option<&'a str>,
    pub operation: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub name: Option<&'a str>,
    pub partition: Option<&'a str>,
    /// The token of a request to `$management`.
    pub security_token: Option<&'a str>,
    /// The body, if it is a text.
    pub body: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub fn read(message: &'a [u8]) -> Result<Self> {
        let mut request = Self {
            id: EncodedValue::NULL,
            reply_to: None,
            operation: None,
            kind: None,
            name: None,
            partition: None,
            security_token: None,
            body: None,
        };
        let mut sections = MessageSections::new(message);
        while let Some(section) = sections.next()? {
            match section.part {
                SectionKind::Properties => request.properties(section.list()?)?,
                SectionKind::ApplicationProperties => request.wishes(section.map()?)?,
                SectionKind::Data | SectionKind::Value => {
                    request.body = text(section.value.value()?)
                }
                _ => {}
            }
        }
        Ok(request)
    }

    fn properties(&mut self, mut fields: ItemReader<'a>) -> Result<()> {
        self.id = fields.next_raw()?;
        for _ in 0..3 {
            fields.next_raw()?;
        }
        self.reply_to = fields.next()?.as_text();
        Ok(())
    }

    fn wishes(&mut self, mut map: ItemReader<'a>) -> Result<()> {
        while let Some((name, raw)) = map.next_pair()? {
            let field = match name.as_text() {
                Some("operation") => &mut self.operation,
                Some("type") => &mut self.kind,
                Some("name") => &mut self.name,
                Some("partition") => &mut self.partition,
                Some("security_token") => &mut self.security_token,
                _ => continue,
            };
            *field = text(raw.value()?);
        }
        Ok(())
    }
}

/// Clients send texts as strings, symbols or bytes.
fn text(value: AmqpValue<'_>) -> Option<&str> {
    match value {
        AmqpValue::Binary(bytes) => std::str::from_utf8(bytes).ok(),
        other => other.as_text(),
    }
}

/// The status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseStatus<'a> {
    pub code: i32,
    pub description: &'a str,
    pub condition: Option<&'a str>,
}

/// Appends a reply; `body` writes one value.
pub fn write_reply(
    out: &mut Vec<u8>,
    id: EncodedValue<'_>,
    status: &ResponseStatus<'_>,
    body: impl FnOnce(&mut Vec<u8>),
) {
    write::descriptor(out, descriptor::PROPERTIES);
    write::list(out, 13, |out| {
        for _ in 0..5 {
            write::null(out);
        }
        out.extend_from_slice(id.bytes());
        for _ in 0..7 {
            write::null(out);
        }
    });
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    let pairs = 3 + u32::from(status.condition.is_some());
    write::map(out, pairs, |out| {
        write::string(out, "status-code");
        write::int(out, status.code);
        write::string(out, "status-description");
        write::string(out, status.description);
        // One of the clients reads the description under this name.
        write::string(out, "statusDescription");
        write::string(out, status.description);
        if let Some(condition) = status.condition {
            write::string(out, "error-condition");
            write::symbol(out, condition);
        }
    });
    write::descriptor(out, descriptor::VALUE);
    body(out);
}
