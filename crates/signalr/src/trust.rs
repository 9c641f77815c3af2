//! TLS of links to a service.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A bidirectional byte stream.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Trusts the authorities of the system, and those of a PEM text if there is one.
pub(super) fn trust(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let own = CertificateDer::pem_slice_iter(authorities.unwrap_or_default());
    let own: Vec<_> = own
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the authorities cannot be read: {error}"))?;
    if authorities.is_some() && own.is_empty() {
        return Err("there is no certificate among the authorities".to_owned());
    }
    let verifier = Verifier::new_with_extra_roots(own, Arc::clone(&provider));
    let verifier = verifier.map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Connects to `host:port`, with TLS if a configuration is given.
pub(super) async fn connect(
    address: &str,
    trusted: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn ByteStream>, String> {
    let tcp = TcpStream::connect(address).await;
    let tcp = tcp.map_err(|error| error.to_string())?;
    // Small messages must not wait.
    let _ = tcp.set_nodelay(true);
    let Some(trusted) = trusted else {
        return Ok(Box::new(tcp));
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| format!("'{host}' is no name of a server"))?;
    let encrypted = TlsConnector::from(Arc::clone(trusted)).connect(name, tcp);
    let encrypted = encrypted.await.map_err(|error| error.to_string())?;
    Ok(Box::new(encrypted))
}
