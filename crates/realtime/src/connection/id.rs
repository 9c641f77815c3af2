//! Unguessable ids.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// A new id: more than 200 random bits, as text for URLs and command lines. It begins
/// with a letter, because a leading hyphen would make it an option.
pub(crate) fn random() -> String {
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    let mut bytes = [0; 30];
    bytes[..15].copy_from_slice(&one.as_bytes()[..15]);
    bytes[15..].copy_from_slice(&other.as_bytes()[..15]);
    bytes[0] &= 0x7f;
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_need_no_escape() {
        let (one, other) = (random(), random());
        assert_ne!(one, other);
        assert_eq!(one.len(), 40);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(one.bytes().all(is_plain));
    }

    #[test]
    fn ids_are_no_options_of_commands() {
        for _ in 0..1000 {
            let id = random();
            assert!(
                id.starts_with(|first: char| first.is_ascii_alphabetic()),
                "{id}"
            );
        }
    }
}
