//! Servers whose connections are encrypted.

use std::fs;

use reqwest::{Certificate, Client};

use super::{PATIENCE, Server, Start};

/// A certificate for loopback and its key, as PEM.
pub(crate) fn certificate() -> (String, String) {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A server that is encrypted by this certificate, and whose client trusts it.
pub(crate) fn encrypted(certificate: &(String, String)) -> Server {
    let key = "[[key]]\nname = 'root'\nprimary = 'a secret of the root'\nrights = ['manage *']\n";
    encrypted_by(certificate, Start::new("serve").config(key))
}

/// The same with other settings. The certificate is the file `tls.pem` of its folder.
pub(crate) fn encrypted_by((chain, key): &(String, String), start: Start) -> Server {
    let start = start.set("tls.certificate=tls.pem").set("tls.key=tls.key");
    fs::write(start.folder.path().join("tls.pem"), chain).unwrap();
    fs::write(start.folder.path().join("tls.key"), key).unwrap();
    let mut server = start.ready();
    let trusted = Certificate::from_pem(chain.as_bytes()).unwrap();
    let client = Client::builder().tls_certs_only([trusted]);
    server.client = client.timeout(PATIENCE).build().unwrap();
    server
}
