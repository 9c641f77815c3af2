//! Requests signed with the key of an account.
//!
//! `Authorization: SharedKey {account}:{signature}`. The signed text holds the verb,
//! eleven headers, all `x-ms-` headers in order, the path as received and the
//! parameters. Clients sort headers as the service does, by a culture in which
//! hyphens sort last, or by bytes: either order is accepted.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::signature;

const SCHEME: &str = "SharedKey";

/// Headers that are signed by their value alone, in this order.
const SIGNED: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// The signed parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub verb: &'a str,
    /// As received, still encoded.
    pub path: &'a str,
    /// Decoded.
    pub parameters: &'a [(String, String)],
    /// Names in lower case.
    pub headers: &'a [(String, String)],
}

/// The account and signature of a header, not yet verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKey {
    pub account: String,
    signature: Vec<u8>,
}

/// The text is not a valid `SharedKey` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedKeyError;

impl SharedKey {
    /// Parses the value of `Authorization`.
    pub fn parse(header: &str) -> Result<Self, SharedKeyError> {
        let (scheme, claim) = header.trim().split_once(' ').ok_or(SharedKeyError)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(SharedKeyError);
        }
        let (account, signature) = claim.trim().split_once(':').ok_or(SharedKeyError)?;
        let signature = STANDARD.decode(signature).map_err(|_| SharedKeyError)?;
        if account.is_empty() {
            Err(SharedKeyError)
        } else {
            Ok(Self {
                account: account.to_owned(),
                signature,
            })
        }
    }

    /// Whether the request is signed with `key`, in base64; in constant time.
    pub fn is_signed_by(&self, key: &str, request: &Request<'_>) -> bool {
        let Ok(key) = STANDARD.decode(key) else {
            return false;
        };
        let orders: [fn(&str, &str) -> Ordering; 2] = [by_culture, str::cmp];
        let signed = orders.map(|order| {
            let text = text(&self.account, request, order);
            signature::is_signed(&key, &text, &self.signature)
        });
        signed[0] | signed[1]
    }
}

/// The header of a request signed with `key`, in base64.
pub fn header(account: &str, key: &str, request: &Request<'_>) -> Option<String> {
    let key = STANDARD.decode(key).ok()?;
    let signature = signature::sign(&key, &text(account, request, by_culture));
    let signature = STANDARD.encode(signature);
    Some(format!("{SCHEME} {account}:{signature}"))
}

fn text(account: &str, request: &Request<'_>, order: fn(&str, &str) -> Ordering) -> String {
    let header = |name: &str| {
        let found = request.headers.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let is_dated = !header("x-ms-date").is_empty();
    let mut text = request.verb.to_owned();
    for name in SIGNED {
        text.push('\n');
        match (name, header(name)) {
            ("content-length", "0") => {}
            ("date", _) if is_dated => {}
            (_, value) => text.push_str(value),
        }
    }
    text.push('\n');
    let own = request.headers.iter();
    let mut own: Vec<_> = own.filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort_by(|(left, _), (right, _)| order(left, right));
    for (name, value) in own {
        text.extend([name, ":", value.trim(), "\n"]);
    }
    text.extend(["/", account, request.path]);
    let names = request.parameters.iter();
    let mut sorted: Vec<_> = names
        .map(|(name, value)| (name.to_lowercase(), value.as_str()))
        .collect();
    sorted.sort();
    let mut last: Option<&str> = None;
    for (name, value) in &sorted {
        if last == Some(name) {
            text.extend([",", value])
        } else {
            text.extend(["\n", name, ":", value])
        }
        last = Some(name);
    }
    text
}

/// Punctuation before digits before letters; hyphens only break ties.
fn by_culture(left: &str, right: &str) -> Ordering {
    let weights = |text: &str| -> Vec<u16> {
        let bytes = text.bytes().filter(|byte| *byte != b'-' && *byte != b'\'');
        let weight = |byte: u8| match byte {
            b'0'..=b'9' => 0x100 + u16::from(byte),
            b'a'..=b'z' => 0x200 + u16::from(byte),
            other => u16::from(other),
        };
        bytes.map(weight).collect()
    };
    weights(left)
        .cmp(&weights(right))
        .then_with(|| left.len().cmp(&right.len()))
        .then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn what_is_signed_reads_as_the_service_says() {
        let headers = pairs(&[
            ("x-ms-version", "2026-04-06"),
            ("content-length", "0"),
            ("x-ms-meta-ownerid", "a b"),
            ("x-ms-date", "Sun, 15 Nov 2026 12:00:00 GMT"),
            ("date", "Sun, 15 Nov 2026 12:00:00 GMT"),
            ("if-match", "\"0x1\""),
        ]);
        let parameters = pairs(&[("Prefix", "a/b"), ("comp", "metadata")]);
        let request = Request {
            verb: "PUT",
            path: "/dev/box/%24default",
            parameters: &parameters,
            headers: &headers,
        };
        assert_eq!(
            text("dev", &request, by_culture),
            "PUT\n\n\n\n\n\n\n\n\"0x1\"\n\n\n\n\
             x-ms-date:Sun, 15 Nov 2026 12:00:00 GMT\nx-ms-meta-ownerid:a b\n\
             x-ms-version:2026-04-06\n/dev/dev/box/%24default\ncomp:metadata\nprefix:a/b"
        );
        let header = header("dev", KEY, &request).unwrap();
        let claim = SharedKey::parse(&header).unwrap();
        assert!(claim.is_signed_by(KEY, &request));
        assert_eq!(
            SharedKey::parse(&header.replace("SharedKey", "sharedkey")),
            Ok(claim.clone())
        );
        assert!(!claim.is_signed_by("Zm9v", &request));
        let other = Request {
            verb: "GET",
            ..request
        };
        assert!(!claim.is_signed_by(KEY, &other));
    }

    #[test]
    fn either_order_of_headers_is_taken() {
        let headers = pairs(&[("x-ms-meta-ab", "1"), ("x-ms-meta-a-c", "2")]);
        let request = Request {
            verb: "GET",
            path: "/",
            parameters: &[],
            headers: &headers,
        };
        let key = STANDARD.decode(KEY).unwrap();
        let orders: [fn(&str, &str) -> Ordering; 2] = [by_culture, str::cmp];
        let texts = orders.map(|order| text("a", &request, order));
        assert_ne!(texts[0], texts[1]);
        for text in texts {
            let signature = STANDARD.encode(signature::sign(&key, &text));
            let claim = SharedKey::parse(&format!("SharedKey a:{signature}")).unwrap();
            assert!(claim.is_signed_by(KEY, &request), "{text}");
        }
        assert_eq!(by_culture("x-ms-a1", "x-ms-aa"), Ordering::Less);
        assert_eq!(by_culture("x-ms-a_", "x-ms-a1"), Ordering::Less);
    }

    #[test]
    fn what_is_no_claim_is_refused() {
        for text in [
            "",
            "Bearer x",
            "SharedKey a",
            "SharedKey :YQ==",
            "SharedKey a:?",
        ] {
            assert_eq!(SharedKey::parse(text), Err(SharedKeyError), "{text}");
        }
    }
}
