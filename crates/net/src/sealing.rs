//! Encryption of secrets at rest, bound to their place.
//!
//! AES-256-GCM with a nonce per text, and with the place as associated data: a sealed text
//! that is copied to another place cannot be decrypted there. The prefix names the version;
//! a text without it was stored before sealing was introduced.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use steadfast_events::Sealer;

/// The prefix of a sealed text.
const PREFIX: &str = "$sealed1$";

/// The purpose of the key derivation.
const PURPOSE: &str = "steadfast sealing 1";

/// The key that seals texts.
#[derive(Clone)]
pub struct SealingKey(LessSafeKey);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey")
    }
}

impl SealingKey {
    /// Derives the key from a long random text.
    pub fn new(text: &str) -> Self {
        let bytes = digest(&SHA256, format!("{PURPOSE}\0{text}").as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref());
        Self(LessSafeKey::new(
            key.expect("a SHA-256 digest is as long as the key"),
        ))
    }

    fn open_sealed(&self, place: &str, sealed: &str) -> Option<String> {
        let mut bytes = STANDARD_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let open = self
            .0
            .open_in_place(nonce, Aad::from(place.as_bytes()), rest);
        String::from_utf8(open.ok()?.to_vec()).ok()
    }
}

impl Sealer for SealingKey {
    fn seal(&self, place: &str, text: &str) -> String {
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.expect("the system gives random numbers");
        let mut bytes = text.as_bytes().to_vec();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place.as_bytes()),
            &mut bytes,
        );
        sealed.expect("secrets are far shorter than what the cipher takes");
        let all = [&nonce[..], &bytes].concat();
        format!("{PREFIX}{}", STANDARD_NO_PAD.encode(all))
    }

    fn open(&self, place: &str, stored: &str) -> Option<String> {
        match stored.strip_prefix(PREFIX) {
            Some(sealed) => self.open_sealed(place, sealed),
            None => Some(stored.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_opens_with_its_key_at_its_place_only() {
        let (key, other) = (SealingKey::new("one"), SealingKey::new("two"));
        let sealed = key.seal("hub a", "geheim");
        assert!(sealed.starts_with(PREFIX) && !sealed.contains("geheim"));
        assert_ne!(sealed, key.seal("hub a", "geheim"), "each has its nonce");
        assert_eq!(key.open("hub a", &sealed).as_deref(), Some("geheim"));
        assert_eq!(key.open("hub b", &sealed), None, "it was copied");
        assert_eq!(other.open("hub a", &sealed), None);
        for bad in ["", "?", "AAAA", &sealed[PREFIX.len() + 4..]] {
            assert_eq!(key.open("hub a", &format!("{PREFIX}{bad}")), None, "{bad}");
        }
        assert_eq!(key.open("hub a", "old").as_deref(), Some("old"));
    }
}
