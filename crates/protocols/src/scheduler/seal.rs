//! Secrets at rest.
//!
//! A secret stands in a stored document as `{"$sealed": ".."}`: AES-256-GCM under
//! a key that the configuration names, with a nonce of its own. It is opened only
//! where a request is made with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

/// Members that hold secrets, wherever they stand in an action.
pub(crate) const SECRETS: [&str; 5] = ["password", "pfx", "secret", "sasToken", "sasKey"];

const MARK: &str = "$sealed";
const PURPOSE: &[u8] = b"steadfast job secret 1";

/// What secrets are encrypted with.
#[derive(Clone)]
pub struct SecretKey {
    key: LessSafeKey,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// The key that a long random text stands for.
    pub fn new(text: &str) -> Self {
        let bytes = digest(&SHA256, text.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref());
        let key = key.expect("a SHA-256 digest is as long as the key");
        Self {
            key: LessSafeKey::new(key),
        }
    }

    /// A secret as it may be stored.
    pub(crate) fn seal(&self, secret: &str) -> Value {
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.expect("the system gives random numbers");
        let mut bytes = secret.as_bytes().to_vec();
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(PURPOSE),
            &mut bytes,
        );
        sealed.expect("secrets are far shorter than what the cipher takes");
        let mut out = nonce.to_vec();
        out.extend_from_slice(&bytes);
        json!({MARK: STANDARD.encode(out)})
    }

    /// The secret in a stored value; `None` if it was sealed with another key.
    pub(crate) fn open(&self, sealed: &Value) -> Option<String> {
        let text = sealed.get(MARK)?.as_str()?;
        let bytes = STANDARD.decode(text).ok()?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let open = self.key.open_in_place(nonce, Aad::from(PURPOSE), &mut rest);
        String::from_utf8(open.ok()?.to_vec()).ok()
    }
}

/// Whether a value is a sealed secret.
pub(crate) fn is_sealed(value: &Value) -> bool {
    value.get(MARK).is_some()
}

/// Removes every secret from a document, however deep.
pub(crate) fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !is_sealed(value));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_with_its_key_only() {
        let (key, other) = (SecretKey::new("one"), SecretKey::new("two"));
        let sealed = key.seal("geheim");
        assert!(is_sealed(&sealed) && !sealed.to_string().contains("geheim"));
        assert_ne!(sealed, key.seal("geheim"), "each has its own nonce");
        assert_eq!(key.open(&sealed).as_deref(), Some("geheim"));
        assert_eq!(other.open(&sealed), None);
        for bad in [
            json!(null),
            json!("x"),
            json!({MARK: "?"}),
            json!({MARK: "QUJD"}),
        ] {
            assert_eq!(key.open(&bad), None);
        }
    }

    #[test]
    fn nothing_sealed_is_left_after_stripping() {
        let key = SecretKey::new("k");
        let mut value = json!({"a": [{"password": key.seal("x"), "username": "u"}]});
        strip(&mut value);
        assert_eq!(value, json!({"a": [{"username": "u"}]}));
    }
}
