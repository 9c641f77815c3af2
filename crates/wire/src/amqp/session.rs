//! Performatives of a session: begin, flow and end.

use super::code::descriptor;
use super::condition::AmqpError;
use super::error::{AmqpDecodeError, Result};
use super::value::ItemReader;
use super::write;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    pub remote_channel: Option<u16>,
    pub next_outgoing: u32,
    pub incoming_window: u32,
    pub outgoing_window: u32,
    pub handle_max: Option<u32>,
}

impl Begin {
    pub(crate) fn read(mut fields: ItemReader<'_>) -> Result<Self> {
        let remote_channel = match fields.next_u32()? {
            Some(channel) => {
                Some(u16::try_from(channel).map_err(|_| AmqpDecodeError::new("a channel"))?)
            }
            None => None,
        };
        Ok(Self {
            remote_channel,
            next_outgoing: fields.next_u32()?.unwrap_or(0),
            incoming_window: fields.next_u32()?.unwrap_or(0),
            outgoing_window: fields.next_u32()?.unwrap_or(0),
            handle_max: fields.next_u32()?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::BEGIN);
        write::list(out, 8, |out| {
            write::optional(out, self.remote_channel, write::ushort);
            write::uint(out, self.next_outgoing);
            write::uint(out, self.incoming_window);
            write::uint(out, self.outgoing_window);
            write::optional(out, self.handle_max, write::uint);
            for _ in 0..3 {
                write::null(out);
            }
        });
    }
}

/// The state of a session, and of one of its links if it names one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    pub next_incoming: Option<u32>,
    pub incoming_window: u32,
    pub next_outgoing: u32,
    pub outgoing_window: u32,
    pub handle: Option<u32>,
    pub delivery_count: Option<u32>,
    pub credit: Option<u32>,
    pub available: Option<u32>,
    pub drain: bool,
    pub echo: bool,
}

impl Flow {
    pub(crate) fn read(mut fields: ItemReader<'_>) -> Result<Self> {
        Ok(Self {
            next_incoming: fields.next_u32()?,
            incoming_window: fields.next_u32()?.unwrap_or(0),
            next_outgoing: fields.next_u32()?.unwrap_or(0),
            outgoing_window: fields.next_u32()?.unwrap_or(0),
            handle: fields.next_u32()?,
            delivery_count: fields.next_u32()?,
            credit: fields.next_u32()?,
            available: fields.next_u32()?,
            drain: fields.next_bool()?.unwrap_or(false),
            echo: fields.next_bool()?.unwrap_or(false),
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::FLOW);
        write::list(out, 11, |out| {
            write::optional(out, self.next_incoming, write::uint);
            write::uint(out, self.incoming_window);
            write::uint(out, self.next_outgoing);
            write::uint(out, self.outgoing_window);
            write::optional(out, self.handle, write::uint);
            write::optional(out, self.delivery_count, write::uint);
            write::optional(out, self.credit, write::uint);
            write::optional(out, self.available, write::uint);
            write::boolean(out, self.drain);
            write::boolean(out, self.echo);
            write::null(out);
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End<'a> {
    pub error: Option<AmqpError<'a>>,
}

impl<'a> End<'a> {
    pub(crate) fn read(mut fields: ItemReader<'a>) -> Result<Self> {
        Ok(Self {
            error: AmqpError::read_last(&mut fields)?,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::END);
        write::list(out, 1, |out| {
            AmqpError::write_optional(self.error.as_ref(), out);
        });
    }
}
