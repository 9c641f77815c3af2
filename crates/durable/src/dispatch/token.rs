//! Tokens of deliveries, which workers return.

use std::fmt;

/// Identifies a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryToken {
    /// A turn or a batch: only the newest delivery counts.
    Turn { number: u64, attempt: u32 },
    /// An activity: every delivery counts while the activity is open, also after a restart
    /// of the node.
    Activity {
        execution: String,
        number: u64,
        attempt: u32,
    },
}

impl DeliveryToken {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let token = match parts.next()? {
            "t" => Self::Turn {
                number: hex(parts.next()?)?,
                attempt: u32::try_from(hex(parts.next()?)?).ok()?,
            },
            "a" => Self::Activity {
                number: hex(parts.next()?)?,
                attempt: u32::try_from(hex(parts.next()?)?).ok()?,
                // Clients may choose the ids of executions.
                execution: parts.by_ref().collect::<Vec<_>>().join(":"),
            },
            _ => return None,
        };
        match parts.next() {
            None => Some(token),
            Some(_) => None,
        }
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl fmt::Display for DeliveryToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn { number, attempt } => write!(f, "t:{number:x}:{attempt:x}"),
            Self::Activity {
                execution,
                number,
                attempt,
            } => write!(f, "a:{number:x}:{attempt:x}:{execution}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_written() {
        let tokens = [
            DeliveryToken::Turn {
                number: 77,
                attempt: 3,
            },
            DeliveryToken::Activity {
                execution: "a:b".into(),
                number: 255,
                attempt: 0,
            },
        ];
        for token in tokens {
            assert_eq!(DeliveryToken::parse(&token.to_string()), Some(token));
        }
        for bad in [
            "",
            "t",
            "t:1",
            "t:1:2:3",
            "x:1:2",
            "a:z:1:e",
            "t:1:fffffffff",
        ] {
            assert_eq!(DeliveryToken::parse(bad), None, "{bad:?}");
        }
    }
}
