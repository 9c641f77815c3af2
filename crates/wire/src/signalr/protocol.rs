//! The hub protocols by name.

/// How hub messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Text, each message ended by a record separator.
    Json,
    /// Arrays, each with its length in front.
    MessagePack,
    /// What Blazor speaks: framed like MessagePack, and passed through only.
    Blazor,
}

impl Protocol {
    /// The protocol of that name, in any case.
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
