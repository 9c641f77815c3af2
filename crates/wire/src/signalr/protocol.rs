//! The hub protocols by name.

/// The encoding of hub messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Text, each message ended by a record separator.
    Json,
    /// Arrays, each with a length prefix.
    MessagePack,
    /// The protocol of Blazor: framed like MessagePack, and only passed through.
    Blazor,
}

impl Protocol {
    /// The protocol of that name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Json, Self::MessagePack, Self::Blazor];
        all.into_iter()
            .find(|own| own.name().eq_ignore_ascii_case(name))
    }

    /// Its name in a handshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MessagePack => "messagepack",
            Self::Blazor => "blazorpack",
        }
    }

    /// Whether its messages are bytes rather than text.
    pub fn is_binary(self) -> bool {
        self != Self::Json
    }
}
