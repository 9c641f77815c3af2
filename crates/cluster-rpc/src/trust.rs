//! TLS between nodes: the certificate is bound to the proof.
//!
//! Nodes authenticate one another by the cluster key, not by an authority. So a client
//! accepts any certificate whose key the server has, and the proofs of both sides cover
//! it: a man in the middle would have to present another one.

use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// How nodes connect to encrypted ports of others.
pub(super) fn client() -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions");
    let verifier = Arc::new(ProofBoundVerifier(provider));
    let mut config = versions
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// The fingerprint of a certificate that the proofs cover.
pub(super) fn fingerprint(certificate: &[u8]) -> Vec<u8> {
    digest(&SHA256, certificate).as_ref().to_vec()
}

/// Accepts any certificate whose key the server has; the proof decides.
#[derive(Debug)]
struct ProofBoundVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for ProofBoundVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
