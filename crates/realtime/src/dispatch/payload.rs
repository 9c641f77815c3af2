//! One hub message in several protocols.

use bytes::Bytes;
use serde::Serialize;
use steadfast_wire::signalr::{Protocol, write};

use crate::dispatch::value;
use crate::error::Result;

/// A set of protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolSet(u8);

impl ProtocolSet {
    /// Both protocols of hubs in the library.
    pub const BOTH: Self = Self(0b11);

    /// Adds one.
    #[must_use]
    pub fn with(self, protocol: Protocol) -> Self {
        Self(self.0 | 1 << protocol as u8)
    }

    fn has(self, protocol: Protocol) -> bool {
        self.0 & (1 << protocol as u8) != 0
    }
}

/// A framed hub message per protocol. Clones share the bytes.
#[derive(Clone, Debug, Default)]
pub struct HubPayload {
    forms: Vec<(Protocol, Bytes)>,
}

impl HubPayload {
    /// A call of a client method, in these protocols.
    pub fn call<T: Serialize + ?Sized>(
        protocols: ProtocolSet,
        id: Option<&str>,
        target: &str,
        arguments: &T,
    ) -> Result<Self> {
        let mut forms = Vec::new();
        for protocol in [Protocol::Json, Protocol::MessagePack] {
            if protocols.has(protocol) {
                let arguments = value::write_arguments(protocol, arguments)?;
                let message = write::invocation(protocol, id, target, &arguments);
                forms.push((protocol, message));
            }
        }
        Ok(Self { forms })
    }

    /// A payload of messages that are already framed.
    pub fn of(forms: Vec<(Protocol, Bytes)>) -> Self {
        Self { forms }
    }

    /// The message in a protocol, if it exists.
    pub fn get(&self, protocol: Protocol) -> Option<&Bytes> {
        let mut forms = self.forms.iter();
        let (_, bytes) = forms.find(|(own, _)| *own == protocol)?;
        Some(bytes)
    }

    /// All messages with their protocols.
    pub fn forms(&self) -> &[(Protocol, Bytes)] {
        &self.forms
    }
}
