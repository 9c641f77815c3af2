//! The credentials of a node.

use ring::hmac;
use steadfast_net::access::Secret;
use steadfast_partition::cluster::{NodeIdentity, PROTOCOL, SCHEMA};

/// A node's identity and the key of its cluster.
#[derive(Clone)]
pub struct Credentials {
    pub identity: NodeIdentity,
    /// The incarnation of the node.
    pub incarnation: u128,
    key: hmac::Key,
}

impl Credentials {
    /// The credentials of a node that is reached at `address`.
    pub fn new(name: &str, address: &str, cluster: &str, secret: &Secret) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
        // The fingerprint is stored beside the data and must not reveal the key: the
        // key is too long to guess, and the fingerprint is bound to this cluster.
        let words = [b"steadfast cluster key of ", cluster.as_bytes()].concat();
        let tag = hmac::sign(&key, &words);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&tag.as_ref()[..16]);
        Self {
            identity: NodeIdentity {
                name: name.to_owned(),
                address: address.to_owned(),
                cluster: cluster.to_owned(),
                fingerprint,
                protocol: PROTOCOL,
                schema: SCHEMA,
            },
            incarnation: 0,
            key,
        }
    }

    pub(super) fn key(&self) -> &hmac::Key {
        &self.key
    }
}
