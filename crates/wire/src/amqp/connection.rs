//! Performatives of a connection: open and close.

use super::code::descriptor;
use super::condition::{AmqpError, put_raw};
use super::error::{AmqpDecodeError, Result};
use super::scan::EncodedValue;
use super::value::ItemReader;
use super::write;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open<'a> {
    pub container: &'a str,
    pub host: Option<&'a str>,
    pub max_frame: Option<u32>,
    pub channel_max: Option<u16>,
    pub idle_ms: Option<u32>,
    pub properties: EncodedValue<'a>,
}

impl<'a> Open<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        let container = fields.next_text()?.unwrap_or("");
        let host = fields.next_text()?;
        let max_frame = fields.next_u32()?;
        let channel_max = match fields.next_u32()? {
            Some(max) => {
                Some(u16::try_from(max).map_err(|_| AmqpDecodeError::new("a channel-max"))?)
            }
            None => None,
        };
        let idle_ms = fields.next_u32()?;
        for _ in 0..4 {
            fields.next_raw()?;
        }
        Ok(Self {
            container,
            host,
            max_frame,
            channel_max,
            idle_ms,
            properties: fields.next_raw()?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::OPEN);
        write::list(out, 10, |out| {
            write::string(out, self.container);
            write::optional(out, self.host, write::string);
            write::optional(out, self.max_frame, write::uint);
            write::optional(out, self.channel_max, write::ushort);
            write::optional(out, self.idle_ms, write::uint);
            for _ in 0..4 {
                write::null(out);
            }
            put_raw(out, self.properties);
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close<'a> {
    pub error: Option<AmqpError<'a>>,
}

impl<'a> Close<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        Ok(Self {
            error: AmqpError::read_last(&mut fields)?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::CLOSE);
        write::list(out, 1, |out| {
            AmqpError::write_optional(self.error.as_ref(), out);
        });
    }
}
