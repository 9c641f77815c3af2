//! The proof that a peer has the cluster key.
//!
//! Each side draws a nonce; each proof covers both nonces, both names, the cluster and
//! the server's certificate. So a proof is valid for one connection only, and a man in
//! the middle cannot use it.

use bytes::Bytes;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// The side that a proof is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ProofSide {
    Client,
    Server,
}

/// The handshake values that both sides know.
pub(super) struct Transcript<'a> {
    pub(super) cluster: &'a str,
    pub(super) client: (&'a str, &'a [u8]),
    pub(super) server: (&'a str, &'a [u8]),
    /// The digest of the server's certificate; empty without encryption.
    pub(super) certificate: &'a [u8],
}

/// The length of a nonce.
pub(super) const NONCE_BYTES: usize = 32;

/// A random nonce; `None` if the system has no entropy.
pub(super) fn nonce() -> Option<Bytes> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(Bytes::copy_from_slice(&bytes))
}

impl Transcript<'_> {
    fn words(&self, side: ProofSide) -> Vec<u8> {
        let side = match side {
            ProofSide::Client => "client",
            ProofSide::Server => "server",
        };
        let parts = [
            b"steadfast cluster proof",
            side.as_bytes(),
            self.cluster.as_bytes(),
            self.client.0.as_bytes(),
            self.client.1,
            self.server.0.as_bytes(),
            self.server.1,
            self.certificate,
        ];
        let mut words = Vec::new();
        for part in parts {
            words.extend_from_slice(&(part.len() as u64).to_le_bytes());
            words.extend_from_slice(part);
        }
        words
    }

    /// The proof of one side.
    pub(super) fn sign(&self, key: &hmac::Key, side: ProofSide) -> Bytes {
        let tag = hmac::sign(key, &self.words(side));
        Bytes::copy_from_slice(tag.as_ref())
    }

    /// Whether the proof of a side is valid; compared in constant time.
    pub(super) fn verify(&self, key: &hmac::Key, side: ProofSide, proof: &[u8]) -> bool {
        hmac::verify(key, &self.words(side), proof).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_side_of_one_connection() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        let transcript = Transcript {
            cluster: "c",
            client: ("a", b"1"),
            server: ("b", b"2"),
            certificate: b"d",
        };
        let proof = transcript.sign(&key, ProofSide::Server);
        assert!(transcript.verify(&key, ProofSide::Server, &proof));
        assert!(!transcript.verify(&key, ProofSide::Client, &proof));
        assert!(!transcript.verify(&key, ProofSide::Server, &proof[1..]));
        let other = hmac::Key::new(hmac::HMAC_SHA256, b"other");
        assert!(!transcript.verify(&other, ProofSide::Server, &proof));
        for changed in [
            Transcript {
                cluster: "x",
                ..transcript
            },
            Transcript {
                client: ("a", b"3"),
                ..transcript
            },
            Transcript {
                server: ("b2", b""),
                ..transcript
            },
            Transcript {
                certificate: b"",
                ..transcript
            },
        ] {
            assert!(!changed.verify(&key, ProofSide::Server, &proof));
        }
    }
}
