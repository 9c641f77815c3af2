//! Client certificates in PKCS#12 files.
//!
//! Without the feature `pkcs12` none can be read, and the libraries that parse them are
//! not in the build.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steadfast_core::clock::Timestamp;

/// A key and its certificates from a PKCS#12 file.
pub(crate) struct Pkcs12 {
    pub(super) key: Vec<u8>,
    pub(super) chain: Vec<Vec<u8>>,
    pub(crate) thumbprint: String,
    pub(crate) subject: String,
    pub(crate) expires: Option<Timestamp>,
}

impl Pkcs12 {
    /// Refuses every file.
    #[cfg(not(feature = "pkcs12"))]
    pub(crate) fn read(_: &str, _: &str) -> Result<Self, &'static str> {
        Err("this server is built without the feature pkcs12, which reads pfx files")
    }

    /// Key and certificates as PEM.
    pub(crate) fn pem(&self) -> Vec<u8> {
        let mut out = block("PRIVATE KEY", &self.key);
        for certificate in &self.chain {
            out.push_str(&block("CERTIFICATE", certificate));
        }
        out.into_bytes()
    }
}

fn block(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
