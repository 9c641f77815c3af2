//! Encryption of connections to PostgreSQL.
//!
//! `sslmode` in the address decides: `disable`, `prefer`, `no-verify`, `require` or
//! `verify-full`. Where encryption is demanded, the server must show a certificate in
//! its own name: of the authority in `sslrootcert`, or of one that the system trusts.
//! With `sslcert` and `sslkey` we show one, too. A password never travels to another
//! machine in the clear unless `disable` is written down, and to one that has not
//! proven its name only if `no-verify` is.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use steadfast_storage::{Error, Result};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::ErrorKind;

/// What the address says about encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    mode: Option<String>,
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Tls {
    /// Takes the TLS settings out of an address; returns the rest.
    pub(crate) fn split(url: &str) -> (String, Self) {
        let mut tls = Self::default();
        let Some((address, settings)) = url.split_once('?') else {
            return (url.to_string(), tls);
        };
        let mut rest = Vec::new();
        for setting in settings.split('&') {
            match setting.split_once('=') {
                Some(("sslmode", mode)) => tls.mode = Some(mode.to_string()),
                Some(("sslrootcert", file)) => tls.root = Some(path(file)),
                Some(("sslcert", file)) => tls.certificate = Some(path(file)),
                Some(("sslkey", file)) => tls.key = Some(path(file)),
                _ => rest.push(setting),
            }
        }
        if rest.is_empty() {
            (address.to_string(), tls)
        } else {
            (format!("{address}?{}", rest.join("&")), tls)
        }
    }

    /// Whether to encrypt a connection that may carry a password to another machine.
    pub(crate) fn mode(&self, is_exposed: bool) -> Result<SslMode> {
        let mode = match self.mode.as_deref() {
            Some("disable") if self.certificate.is_some() => {
                return Err(bad(
                    "sslcert needs encryption, and sslmode=disable forbids it",
                ));
            }
            Some("disable") => SslMode::Disable,
            // A certificate can only be demanded or shown if there is encryption.
            None | Some("prefer") if self.root.is_some() => SslMode::Require,
            None | Some("prefer") if self.certificate.is_some() => SslMode::Require,
            None | Some("prefer") if is_exposed => SslMode::Require,
            None | Some("prefer") => SslMode::Prefer,
            Some("no-verify") if self.root.is_some() => {
                return Err(bad(
                    "sslrootcert has the server verified, and sslmode=no-verify does not",
                ));
            }
            Some("require" | "verify-full" | "no-verify") => SslMode::Require,
            Some(other) => {
                let known = "disable, prefer, no-verify, require or verify-full";
                return Err(bad(&format!("sslmode={other} is not {known}")));
            }
        };
        Ok(mode)
    }

    /// What connections of a mode are made with. Where encryption is not demanded, a
    /// server could also do without: then its certificate proves nothing.
    pub(crate) fn connector(&self, mode: SslMode) -> Result<MakeRustlsConnect> {
        let is_demanded = mode == SslMode::Require;
        let is_trusted = !is_demanded || self.mode.as_deref() == Some("no-verify");
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let config = config
            .with_safe_default_protocol_versions()
            .map_err(|e| caused("TLS cannot be set up", e))?;
        let config = match &self.root {
            Some(root) => config.with_root_certificates(roots(root)?),
            None if is_trusted => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
            None => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(system(provider)?)),
        };
        let config = match self.identity()? {
            Some((chain, key)) => config
                .with_client_auth_cert(chain, key)
                .map_err(|e| caused("sslcert and sslkey do not fit together", e))?,
            None => config.with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    /// The client certificate and key.
    fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
        let (file, key) = match (&self.certificate, &self.key) {
            (None, None) => return Ok(None),
            (Some(file), Some(key)) => (file, key),
            _ => return Err(bad("sslcert=FILE and sslkey=FILE go together")),
        };
        let unreadable = |e| caused(&format!("sslcert={file} holds no certificate"), e);
        let chain = CertificateDer::pem_file_iter(file).map_err(unreadable)?;
        let chain: std::result::Result<Vec<_>, _> = chain.collect();
        let chain = chain.map_err(unreadable)?;
        if chain.is_empty() {
            return Err(bad(&format!("sslcert={file} holds no certificate")));
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|e| caused(&format!("sslkey={key} holds no private key"), e))?;
        Ok(Some((chain, key)))
    }
}

/// Decodes the path of a file in an address.
fn path(text: &str) -> String {
    text.replace("%2F", "/")
}

fn bad(what: &str) -> Error {
    let what = what.to_string();
    Error::new(ErrorKind::BadAddress { what })
}

fn caused(what: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    let what = what.to_string();
    Error::caused(ErrorKind::BadAddress { what }, source)
}

/// The authorities of a file.
fn roots(file: &str) -> Result<RootCertStore> {
    let unreadable = |e| caused(&format!("sslrootcert={file} holds no certificate"), e);
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
        let added = store.add(certificate.map_err(unreadable)?);
        added.map_err(|e| caused(&format!("a certificate in {file} cannot be used"), e))?;
    }
    if store.is_empty() {
        Err(bad(&format!("sslrootcert={file} holds no certificate")))
    } else {
        Ok(store)
    }
}

/// Trusts the authorities of the system.
fn system(provider: Arc<CryptoProvider>) -> Result<Verifier> {
    let none = "the system has no authorities to verify the server with: name one by \
                sslrootcert=FILE";
    Verifier::new(provider).map_err(|e| caused(none, e))
}

/// Encrypts without verifying the server, as `no-verify` demands.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str, is_exposed: bool) -> Result<SslMode> {
        Tls::split(url).1.mode(is_exposed)
    }

    #[test]
    fn a_password_is_not_sent_in_the_clear_unless_that_is_written() {
        let plain = "postgres://ada:secret@db1/state";
        let with = |settings: &str| format!("{plain}?{settings}");
        assert_eq!(mode(plain, true).unwrap(), SslMode::Require);
        assert_eq!(mode(plain, false).unwrap(), SslMode::Prefer);
        assert_eq!(
            mode(&with("sslmode=prefer"), true).unwrap(),
            SslMode::Require
        );
        assert_eq!(
            mode(&with("sslmode=disable"), true).unwrap(),
            SslMode::Disable
        );
        assert_eq!(
            mode(&with("sslrootcert=ca"), false).unwrap(),
            SslMode::Require
        );
    }

    #[test]
    fn encryption_that_is_demanded_is_verified_unless_no_verify_is_written() {
        let at = |settings: &str| format!("postgres://ada:secret@db1/state?{settings}");
        for settings in [
            "",
            "sslmode=require",
            "sslmode=verify-full",
            "sslmode=prefer",
        ] {
            let (_, tls) = Tls::split(&at(settings));
            assert_eq!(tls.mode(true).unwrap(), SslMode::Require, "{settings}");
        }
        let (_, tls) = Tls::split(&at("sslmode=no-verify"));
        assert_eq!(tls.mode(false).unwrap(), SslMode::Require);
        assert!(tls.connector(SslMode::Require).is_ok());
    }

    #[test]
    fn only_our_settings_are_taken_out() {
        let url = "postgres://db1/state?options=-ca&sslmode=verify-full&sslrootcert=%2Fca.pem";
        let (left, tls) = Tls::split(url);
        assert_eq!(left, "postgres://db1/state?options=-ca");
        assert_eq!(tls.root.as_deref(), Some("/ca.pem"));
        assert_eq!(Tls::split("postgres://db1?sslmode=x").0, "postgres://db1");
        let code = |url: &str| mode(url, true).unwrap_err().code().0;
        assert_eq!(
            code("postgres://db1?sslmode=no-verify&sslrootcert=ca"),
            "STF-2037"
        );
        assert_eq!(code("postgres://db1?sslmode=verify-ca"), "STF-2037");
    }

    #[test]
    fn a_certificate_of_ours_needs_its_key_and_encryption() {
        let url = "postgres://db1/state?sslcert=%2Fus.crt&sslkey=us.key";
        let (left, tls) = Tls::split(url);
        assert_eq!(left, "postgres://db1/state");
        assert_eq!(tls.certificate.as_deref(), Some("/us.crt"));
        assert_eq!(mode(url, false).unwrap(), SslMode::Require);
        let error = mode(&format!("{url}&sslmode=disable"), false).unwrap_err();
        assert_eq!(error.code().0, "STF-2037");
        let alone = Tls::split("postgres://db1?sslcert=us.crt").1;
        let error = alone.connector(SslMode::Prefer).err().unwrap();
        assert!(error.to_string().contains("go together"), "{error}");
        let missing = tls.connector(SslMode::Prefer).err().unwrap();
        assert!(missing.to_string().contains("holds no certificate"));
    }
}
