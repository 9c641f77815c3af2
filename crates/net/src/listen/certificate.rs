//! A certificate that can be renewed while it is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::error::{Error, ErrorKind};

/// A chain of certificates and its key, from two PEM files.
#[derive(Debug)]
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads both files, and checks that they belong together.
    pub fn load(chain: &Path, key: &Path) -> Result<Arc<Self>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = RwLock::new(Arc::new(read(chain, key, &provider)?));
        Ok(Arc::new(Self {
            chain: chain.to_owned(),
            key: key.to_owned(),
            provider,
            current,
        }))
    }

    /// Reads both files again. New connections use them; if they are invalid, the previous
    /// ones stay.
    pub fn reload(&self) -> Result<(), Error> {
        let fresh = read(&self.chain, &self.key, &self.provider)?;
        *self.current.write() = Arc::new(fresh);
        Ok(())
    }

    /// The certificate itself, without its chain.
    pub fn leaf(&self) -> Vec<u8> {
        let current = self.current.read();
        let leaf = current.cert.first();
        leaf.map(|leaf| leaf.to_vec()).unwrap_or_default()
    }

    /// The TLS configuration of a listener, for these application protocols.
    pub fn server(self: &Arc<Self>, protocols: &[&str]) -> Arc<ServerConfig> {
        let versions = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions");
        let resolver = Arc::clone(self);
        let mut server = versions.with_no_client_auth().with_cert_resolver(resolver);
        server.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Arc::new(server)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

fn read(chain: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let bad = |file: &Path, why: String| {
        let file = file.to_owned();
        Error::new(ErrorKind::Certificate { file, why }, None)
    };
    let chain_error = |error: rustls_pki_types::pem::Error| bad(chain, error.to_string());
    let certificates = CertificateDer::pem_file_iter(chain).map_err(chain_error)?;
    let certificates: Vec<_> = certificates
        .collect::<Result<_, _>>()
        .map_err(chain_error)?;
    if certificates.is_empty() {
        return Err(bad(chain, "it holds no certificate".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
    CertifiedKey::from_der(certificates, private, provider)
        .map_err(|error| bad(key, format!("it does not fit the certificate: {error}")))
}
