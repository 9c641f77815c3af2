//! Parses PKCS#12 files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use steadfast_core::clock::Timestamp;
use steadfast_core::hex;
use steadfast_core::iso;

use super::certificate::Pkcs12;

impl Pkcs12 {
    /// Reads a PKCS#12 file in base64.
    pub(crate) fn read(pfx: &str, password: &str) -> Result<Self, &'static str> {
        let compact: String = pfx.split_whitespace().collect();
        let bytes = STANDARD
            .decode(compact)
            .map_err(|_| "the pfx is not base64")?;
        let store = KeyStore::from_pkcs12(&bytes, password, Pkcs12ImportPolicy::Relaxed);
        let store = store.map_err(|_| "the pfx cannot be opened with this password")?;
        let (_, chain) = store
            .private_key_chain()
            .ok_or("the pfx holds no private key")?;
        let leaf = chain
            .certs()
            .first()
            .ok_or("the pfx holds no certificate")?;
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, leaf.as_der());
        Ok(Self {
            key: chain.key().as_der().to_vec(),
            chain: chain
                .certs()
                .iter()
                .map(|cert| cert.as_der().to_vec())
                .collect(),
            thumbprint: hex::encode_upper(hash.as_ref()),
            subject: leaf.subject().to_string(),
            expires: expiry(leaf.as_der()),
        })
    }
}

/// Parses the end of validity of a certificate.
fn expiry(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate, _) = element(der)?;
    let (_, mut rest, _) = element(certificate)?;
    let (tag, _, after) = element(rest)?;
    if tag == 0xa0 {
        // The version, which may be absent.
        rest = after;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (tag, text, _) = element(element(validity)?.2)?;
    let text = std::str::from_utf8(text).ok()?;
    let century = match (tag, text.get(..2)?.parse::<u32>().ok()?) {
        (0x17, year) if year < 50 => "20",
        (0x17, _) => "19",
        _ => "",
    };
    let text = format!("{century}{text}");
    let part = |from: usize, to: usize| text.get(from..to);
    let date = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let clock = format!("{}:{}:{}", part(8, 10)?, part(10, 12)?, part(12, 14)?);
    iso::parse_time(&format!("{date}T{clock}Z"))
}

/// Tag and content of the first element, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let bytes = usize::from(first & 0x7f);
        let (size, after) = rest.split_at_checked(bytes)?;
        if bytes > 4 {
            return None;
        }
        length = size
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}
