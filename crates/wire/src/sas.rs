//! Shared access signatures.
//!
//! `SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}`, in
//! any order. The signed text is `sr` as received, still encoded, and `se`: clients
//! encode differently, so nothing is re-encoded before the check.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::signature;

/// The maximum length of a token.
const TOKEN_BYTES: usize = 8 * 1024;

const SCHEME: &str = "SharedAccessSignature ";

/// A parsed token, not yet verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sas {
    /// The resource it is for, decoded.
    pub resource: String,
    /// Its expiry, in seconds since 1970.
    pub expiry: i64,
    /// The name of the key that signed it.
    pub key_name: String,
    signed: String,
    signature: Vec<u8>,
}

/// The text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SasError;

impl Sas {
    /// Parses a token. It is not verified yet.
    pub fn parse(token: &str) -> Result<Self, SasError> {
        if token.len() > TOKEN_BYTES {
            return Err(SasError);
        }
        let fields = token.trim().strip_prefix(SCHEME).ok_or(SasError)?;
        let field = |name: &str| {
            let mut pairs = fields.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(found, _)| found.trim().eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim())
                .ok_or(SasError)
        };
        let (resource, expiry) = (field("sr")?, field("se")?);
        let signature = decoded(field("sig")?)?;
        Ok(Self {
            resource: decoded(resource)?,
            expiry: expiry.parse().map_err(|_| SasError)?,
            key_name: decoded(field("skn")?)?,
            signed: format!("{resource}\n{expiry}"),
            signature: STANDARD.decode(signature).map_err(|_| SasError)?,
        })
    }

    /// Whether it is signed with `key`, in constant time.
    pub fn is_signed_by(&self, key: &str) -> bool {
        signature::is_signed(key.as_bytes(), &self.signed, &self.signature)
    }

    /// Whether it is for `resource` or one of its parents. Only paths are compared,
    /// without case, because clients use any host name. Without a scheme it may begin
    /// with the host of `resource`.
    pub fn covers(&self, resource: &str) -> bool {
        let own = match behind_host(&self.resource, resource) {
            Some(rest) => path(&format!("/{rest}")),
            None => path(&self.resource),
        };
        let asked = path(resource);
        own.is_empty()
            || asked == own
            || asked
                .strip_prefix(&own)
                .is_some_and(|rest| rest.starts_with('/'))
    }
}

/// A token for `resource` until `expiry`, in seconds since 1970.
pub fn token(resource: &str, expiry: i64, key_name: &str, key: &str) -> String {
    let resource = encoded(resource);
    let signature = signature::sign(key.as_bytes(), &format!("{resource}\n{expiry}"));
    let signature = encoded(&STANDARD.encode(signature));
    let key_name = encoded(key_name);
    format!("{SCHEME}sr={resource}&sig={signature}&se={expiry}&skn={key_name}")
}

/// The path of an address without a scheme, if it begins with the host of `resource`.
/// Only a name with a port is certainly a host: the names of event hubs may have
/// dots, and a token for one of them must not grant access to its siblings.
fn behind_host<'a>(own: &'a str, resource: &str) -> Option<&'a str> {
    let (_, rest) = resource.split_once("://")?;
    let asked = rest.split('/').next()?;
    let (host, path) = own.split_once('/').unwrap_or((own, ""));
    let is_host = host.contains(':') || host.eq_ignore_ascii_case("localhost");
    (is_host && host.eq_ignore_ascii_case(asked)).then_some(path)
}

/// The path of an address, without scheme, host and outer slashes.
fn path(resource: &str) -> String {
    let after_scheme = resource
        .split_once("://")
        .map_or(resource, |(_, rest)| rest);
    let path = if after_scheme.len() == resource.len() {
        after_scheme
    } else {
        after_scheme.split_once('/').map_or("", |(_, path)| path)
    };
    path.trim_matches('/').to_lowercase()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn decoded(text: &str) -> Result<String, SasError> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| SasError)?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_is_verified_with_that_key_only() {
        let token = token("sb://host/houses", 1_900_000_000, "send", "secret");
        let sas = Sas::parse(&token).unwrap();
        assert_eq!(
            (sas.resource.as_str(), sas.expiry),
            ("sb://host/houses", 1_900_000_000)
        );
        assert!(sas.is_signed_by("secret"));
        assert!(!sas.is_signed_by("secret2"));
    }

    /// Made by an independent implementation (Python's hmac over the text).
    #[test]
    fn a_token_of_another_implementation_is_verified() {
        let token = "SharedAccessSignature sr=sb%3a%2f%2flocalhost%2fhub&sig=\
                     %2BmbURIOxxfYkkon4xN9oOhwiWPRYOUnfbCRfIQiewic%3D&se=1893456000&skn=Root";
        let sas = Sas::parse(token).unwrap();
        assert!(sas.is_signed_by("SAS_KEY_VALUE"));
        let changed = token.replace("1893456000", "1893456001");
        assert!(!Sas::parse(&changed).unwrap().is_signed_by("SAS_KEY_VALUE"));
    }

    #[test]
    fn a_token_covers_what_lies_below_its_path() {
        let at = |resource: &str| Sas::parse(&token(resource, 1, "n", "k")).unwrap();
        assert!(at("sb://a/houses").covers("amqps://b/Houses/Partitions/1"));
        assert!(at("sb://a/").covers("sb://b/houses"));
        assert!(!at("sb://a/houses").covers("sb://a/houses2"));
        assert!(!at("sb://a/houses").covers("sb://a/"));
    }

    /// azeventhubs signs for the host alone, without a scheme.
    #[test]
    fn a_token_without_a_scheme_may_begin_with_the_host() {
        let at = |resource: &str| Sas::parse(&token(resource, 1, "n", "k")).unwrap();
        assert!(at("localhost").covers("amqps://Localhost/houses/$management"));
        assert!(at("a:5671/").covers("sb://a:5671/houses"));
        assert!(at("a:5671/houses").covers("sb://a:5671/houses/Partitions/1"));
        assert!(!at("a:5671/houses").covers("sb://a:5671/cars"));
        assert!(!at("b:5671").covers("sb://a:5671/houses"));
    }

    #[test]
    fn a_token_for_an_event_hub_opens_no_other_by_a_host_of_that_name() {
        let at = |resource: &str| Sas::parse(&token(resource, 1, "n", "k")).unwrap();
        for hub in ["houses", "houses.north", "10.0.0.7"] {
            assert!(at(hub).covers(&format!("sb://a/{hub}/Partitions/1")));
            assert!(!at(hub).covers(&format!("sb://{hub}/cars")), "{hub}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "Bearer x",
            "SharedAccessSignature sr=a&se=1",
            "SharedAccessSignature sr=%ff&sig=YQ%3D%3D&se=1&skn=a",
        ] {
            assert_eq!(Sas::parse(text), Err(SasError), "{text}");
        }
        let long = token(&"x".repeat(TOKEN_BYTES), 1, "n", "k");
        assert_eq!(Sas::parse(&long), Err(SasError));
    }

    #[test]
    fn a_signature_that_is_cut_short_is_none() {
        let mut sas = Sas::parse(&token("sb://a/houses", 1, "n", "k")).unwrap();
        assert!(sas.is_signed_by("k"));
        while sas.signature.pop().is_some() {
            let length = sas.signature.len();
            assert!(!sas.is_signed_by("k"), "{length} bytes");
        }
    }
}
