//! JSON web tokens, signed with HS256 or HS512.
//!
//! No other algorithm is supported, least of all `none`. Both use the same secret, so
//! the algorithm named in the header cannot weaken a token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::signature;

/// The maximum length of a token.
pub const TOKEN_BYTES: usize = 4096;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// A parsed token, not yet verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    /// Its claims.
    pub claims: Map<String, Value>,
    signed: String,
    signature: Vec<u8>,
    /// Whether it is signed with HS512.
    is_long: bool,
}

/// The reason why a text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtError {
    /// It does not have the form of a token, or is too long.
    Malformed,
    /// It is signed with neither HS256 nor HS512.
    Algorithm,
}

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is not a JSON web token",
            Self::Algorithm => "it is signed with neither HS256 nor HS512",
        })
    }
}

impl Jwt {
    /// Parses a token. It is not verified yet.
    pub fn parse(token: &str) -> Result<Self, JwtError> {
        if token.len() > TOKEN_BYTES {
            return Err(JwtError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let is_long = match object(header)?.get("alg").and_then(Value::as_str) {
            Some("HS256") => false,
            Some("HS512") => true,
            _ => return Err(JwtError::Algorithm),
        };
        Ok(Self {
            claims: object(claims)?,
            signed: signed.to_owned(),
            signature: bytes(signature)?,
            is_long,
        })
    }

    /// Whether it is signed with `key`, in constant time.
    pub fn is_signed_by(&self, key: &str) -> bool {
        let key = key.as_bytes();
        if self.is_long {
            signature::is_signed_long(key, &self.signed, &self.signature)
        } else {
            signature::is_signed(key, &self.signed, &self.signature)
        }
    }

    /// Its expiry, in seconds since 1970.
    pub fn expiry(&self) -> Option<f64> {
        self.claims.get("exp").and_then(Value::as_f64)
    }

    /// The start of its validity, in seconds since 1970.
    pub fn not_before(&self) -> Option<f64> {
        self.claims.get("nbf").and_then(Value::as_f64)
    }

    /// Its audiences: one text or several.
    pub fn audience(&self) -> impl Iterator<Item = &str> {
        let texts = match self.claims.get("aud") {
            Some(Value::Array(texts)) => texts.as_slice(),
            Some(text) => std::slice::from_ref(text),
            None => &[],
        };
        texts.iter().filter_map(Value::as_str)
    }
}

/// A token with these claims.
pub fn token(claims: &Map<String, Value>, key: &str) -> String {
    let claims = Value::Object(claims.clone()).to_string();
    let signed = format!("{}.{}", text(HEADER.as_bytes()), text(claims.as_bytes()));
    let signature = text(&signature::sign(key.as_bytes(), &signed));
    format!("{signed}.{signature}")
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    serde_json::from_slice(&bytes(part)?).map_err(|_| JwtError::Malformed)
}

fn bytes(part: &str) -> Result<Vec<u8>, JwtError> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| JwtError::Malformed)
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Made by an independent implementation (Python's hmac over the parts).
    const FOREIGN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJhdWQiOlsiaHR0cDovL2xvY2FsaG9zdC9jbGllbnQvP2h1Yj1jaGF0Il0sImV4cCI6MTg5MzQ1NjAwMCwibmFtZWlkIjoibWUifQ.FxDpZ_AzbASWUJyxwDymvmRyafSf_dq7TgOpKVUgcPk";

    #[test]
    fn a_token_of_another_implementation_is_verified() {
        let jwt = Jwt::parse(FOREIGN).unwrap();
        assert!(jwt.is_signed_by("ABC"));
        assert!(!jwt.is_signed_by("ABD"));
        assert_eq!(jwt.expiry(), Some(1_893_456_000.0));
        let audience: Vec<_> = jwt.audience().collect();
        assert_eq!(audience, ["http://localhost/client/?hub=chat"]);
    }

    /// Made by the same implementation.
    const FOREIGN_LONG: &str = "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJleHAiOjE4OTM0NTYwMDAsIm5hbWVpZCI6Im1lIn0.c6Zwa0KCKO1cfhFIvdmIzU0kyNRvXp-iK4p19uW8RGkeVW_9eQIIfvqbhWwnz-S_GoPo2UzSFgTPBI1XBDUNcw";

    #[test]
    fn the_longer_algorithm_counts_too_and_no_other() {
        let jwt = Jwt::parse(FOREIGN_LONG).unwrap();
        assert!(jwt.is_signed_by("ABC"));
        assert!(!jwt.is_signed_by("ABD"));
        // A signature of one algorithm is invalid for the other.
        let (_, rest) = FOREIGN_LONG.split_once('.').unwrap();
        let header = text(HEADER.as_bytes());
        let renamed = Jwt::parse(&format!("{header}.{rest}")).unwrap();
        assert!(!renamed.is_signed_by("ABC"));
        let header = text(br#"{"alg":"HS384"}"#);
        let other = Jwt::parse(&format!("{header}.{rest}"));
        assert_eq!(other, Err(JwtError::Algorithm));
    }

    #[test]
    fn a_changed_claim_is_noticed() {
        let claims = json!({"sub": "a", "exp": 5});
        let good = token(claims.as_object().unwrap(), "key");
        let jwt = Jwt::parse(&good).unwrap();
        assert!(jwt.is_signed_by("key"));
        let other = token(json!({"sub": "b", "exp": 5}).as_object().unwrap(), "key");
        let (_, signature) = good.rsplit_once('.').unwrap();
        let (signed, _) = other.rsplit_once('.').unwrap();
        let forged = Jwt::parse(&format!("{signed}.{signature}")).unwrap();
        assert!(!forged.is_signed_by("key"));
    }

    #[test]
    fn an_unsigned_token_is_refused_whatever_it_says() {
        let header = text(br#"{"alg":"none"}"#);
        let claims = text(br#"{"sub":"root"}"#);
        let unsigned = format!("{header}.{claims}.");
        assert_eq!(Jwt::parse(&unsigned), Err(JwtError::Algorithm));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", ".", "..", "a.b.c", "e30.e30"] {
            assert!(Jwt::parse(text).is_err(), "{text}");
        }
        let claims = json!({"sub": "a".repeat(TOKEN_BYTES)});
        let long = token(claims.as_object().unwrap(), "key");
        assert_eq!(Jwt::parse(&long), Err(JwtError::Malformed));
    }

    #[test]
    fn a_signature_that_is_cut_short_is_none() {
        for whole in [FOREIGN, FOREIGN_LONG] {
            let (signed, signature) = whole.rsplit_once('.').unwrap();
            let signature = bytes(signature).unwrap();
            for length in 0..signature.len() {
                let cut = format!("{signed}.{}", text(&signature[..length]));
                let is_signed = Jwt::parse(&cut).unwrap().is_signed_by("ABC");
                assert!(!is_signed, "{length} bytes of {}", signature.len());
            }
        }
    }
}
