//! HMAC-SHA256 and HMAC-SHA512 signatures.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};

/// Signs `text` with the bytes of `key`.
pub fn sign(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = mac(key);
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

/// Whether `signature` is that of `text`, in constant time.
pub(crate) fn is_signed(key: &[u8], text: &str, signature: &[u8]) -> bool {
    let mut mac = mac(key);
    mac.update(text.as_bytes());
    mac.verify_slice(signature).is_ok()
}

/// The same for HMAC-SHA512.
pub(crate) fn is_signed_long(key: &[u8], text: &str, signature: &[u8]) -> bool {
    let mac = Hmac::<Sha512>::new_from_slice(key);
    let mut mac = mac.expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.verify_slice(signature).is_ok()
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length")
}
