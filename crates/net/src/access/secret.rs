//! A secret: compared in constant time, never shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// Random bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A new random one; `None` if the system has no random bytes.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self(STANDARD.encode(bytes)))
    }

    /// Derives a secret for one purpose; this one cannot be computed from it.
    pub fn derive(&self, purpose: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        Self(STANDARD.encode(hmac::sign(&key, purpose.as_bytes())))
    }

    /// The text itself, for a signature or for the client that it was issued to.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares with `text` in a time that depends on lengths only.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_whole_text_and_no_other() {
        let secret = Secret::new("hush");
        assert!(secret.is("hush"));
        for other in ["", "h", "hus", "hush ", "hushh", "Hush", "ush"] {
            assert!(!secret.is(other), "{other}");
        }
        assert!(!Secret::new("").is("h"));
    }

    #[test]
    fn new_secrets_are_long_and_differ() {
        let secrets = [(); 3].map(|()| Secret::random().unwrap());
        for (place, secret) in secrets.iter().enumerate() {
            let bytes = STANDARD.decode(secret.reveal()).unwrap();
            assert_eq!(bytes.len(), SECRET_BYTES);
            let mut others = secrets.iter().skip(place + 1);
            assert!(others.all(|other| !secret.is(other.reveal())));
        }
    }

    #[test]
    fn a_derived_secret_is_of_its_source_and_its_purpose() {
        let derived = Secret::new("a").derive("x");
        assert!(derived.is(Secret::new("a").derive("x").reveal()));
        for other in [Secret::new("a").derive("y"), Secret::new("b").derive("x")] {
            assert!(!derived.is(other.reveal()));
        }
    }
}
