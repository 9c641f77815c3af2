//! The nine performatives, read from a frame's body.

use super::code::descriptor;
use super::connection::{Close, Open};
use super::delivery::{Disposition, Transfer};
use super::error::{AmqpDecodeError, Result};
use super::link::{Attach, Detach};
use super::scan;
use super::session::{Begin, End, Flow};
use super::value::{self, AmqpValue, ItemReader};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Performative<'a> {
    Open(Open<'a>),
    Begin(Begin),
    Attach(Attach<'a>),
    Flow(Flow),
    Transfer(Transfer<'a>),
    Disposition(Disposition<'a>),
    Detach(Detach<'a>),
    End(End<'a>),
    Close(Close<'a>),
}

/// The performative of a frame's body, and how many bytes it has; what follows is
/// the payload of a transfer. Fields that are missing at the end are null.
pub fn read(body: &[u8]) -> Result<(Performative<'_>, usize)> {
    let mut rest = body;
    let (number, fields) = described_list(&mut rest)?;
    let performative = match number {
        descriptor::OPEN => Performative::Open(Open::read(fields)?),
        descriptor::BEGIN => Performative::Begin(Begin::read(fields)?),
        descriptor::ATTACH => Performative::Attach(Attach::read(fields)?),
        descriptor::FLOW => Performative::Flow(Flow::read(fields)?),
        descriptor::TRANSFER => Performative::Transfer(Transfer::read(fields)?),
        descriptor::DISPOSITION => Performative::Disposition(Disposition::read(fields)?),
        descriptor::DETACH => Performative::Detach(Detach::read(fields)?),
        descriptor::END => Performative::End(End::read(fields)?),
        descriptor::CLOSE => Performative::Close(Close::read(fields)?),
        _ => return Err(AmqpDecodeError::new("an unknown performative")),
    };
    Ok((performative, body.len() - rest.len()))
}

impl Performative<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) => open.write(out),
            Self::Begin(begin) => begin.write(out),
            Self::Attach(attach) => attach.write(out),
            Self::Flow(flow) => flow.write(out),
            Self::Transfer(transfer) => transfer.write(out),
            Self::Disposition(disposition) => disposition.write(out),
            Self::Detach(detach) => detach.write(out),
            Self::End(end) => end.write(out),
            Self::Close(close) => close.write(out),
        }
    }
}

/// Takes a described list from the front.
pub(crate) fn described_list<'a>(bytes: &mut &'a [u8]) -> Result<(u64, ItemReader<'a>)> {
    if scan::take_byte(bytes)? != super::code::DESCRIBED {
        return Err(AmqpDecodeError::new("a performative"));
    }
    let number = scan::descriptor(bytes)?.number();
    match (number, value::read(bytes)?) {
        (Some(number), AmqpValue::List(fields)) => Ok((number, fields)),
        _ => Err(AmqpDecodeError::new("a performative")),
    }
}
