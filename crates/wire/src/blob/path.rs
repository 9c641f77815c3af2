//! The blob that a request addresses.

use percent_encoding::percent_decode_str;

/// The maximum length of a query, and its maximum number of parameters.
const QUERY_BYTES: usize = 8 * 1024;
const PARAMETERS: usize = 64;

/// Account, container and blob of a path, percent-decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPath {
    pub account: String,
    pub container: Option<String>,
    pub blob: Option<String>,
}

/// The path or query is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobPathError;

impl BlobPath {
    /// Parses `/{account}/{container}/{blob}`; the blob's name may contain slashes.
    pub fn parse(path: &str) -> Result<Self, BlobPathError> {
        let mut parts = path.strip_prefix('/').ok_or(BlobPathError)?.splitn(3, '/');
        let account = decoded(parts.next().unwrap_or(""))?;
        let mut part = || match parts.next() {
            Some("") | None => Ok(None),
            Some(part) => decoded(part).map(Some),
        };
        let (container, blob) = (part()?, part()?);
        if account.is_empty() || (container.is_none() && blob.is_some()) {
            Err(BlobPathError)
        } else {
            Ok(Self {
                account,
                container,
                blob,
            })
        }
    }
}

/// The parameters of a query, decoded, in their order.
pub fn parameters(query: &str) -> Result<Vec<(String, String)>, BlobPathError> {
    if query.len() > QUERY_BYTES {
        return Err(BlobPathError);
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    });
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    if pairs.len() > PARAMETERS {
        Err(BlobPathError)
    } else {
        Ok(pairs)
    }
}

fn decoded(text: &str) -> Result<String, BlobPathError> {
    let text = percent_decode_str(text);
    Ok(text.decode_utf8().map_err(|_| BlobPathError)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_at_its_first_two_slashes_and_decoded() {
        let place = BlobPath::parse("/dev/box/ns/Hub/%24default/ownership/0").unwrap();
        assert_eq!(place.container.as_deref(), Some("box"));
        assert_eq!(place.blob.as_deref(), Some("ns/Hub/$default/ownership/0"));
        assert_eq!(
            place,
            BlobPath::parse("/dev/box/ns/Hub/$default/ownership/0").unwrap()
        );
        let container = BlobPath::parse("/dev/box/").unwrap();
        assert_eq!(
            (container.container.as_deref(), container.blob),
            (Some("box"), None)
        );
        assert_eq!(BlobPath::parse("/dev").unwrap().container, None);
        for path in ["", "dev", "/", "//box", "/dev//blob", "/dev/%ff"] {
            assert_eq!(BlobPath::parse(path), Err(BlobPathError), "{path}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_bounded() {
        let found = parameters("restype=container&prefix=a%2Fb&flag&sig=a+b%2B=").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [
                pair("restype", "container"),
                pair("prefix", "a/b"),
                pair("flag", ""),
                pair("sig", "a+b+="),
            ]
        );
        assert!(parameters("").unwrap().is_empty());
        assert_eq!(parameters(&"a&".repeat(PARAMETERS + 1)), Err(BlobPathError));
        assert_eq!(parameters(&"a".repeat(QUERY_BYTES + 1)), Err(BlobPathError));
    }
}
