//! The well-known keys of development.

use super::key::{Key, KeyRing};
use super::secret::Secret;

/// The key of everything but blobs and hubs in development.
pub const ROOT: &str = "RootManageSharedAccessKey";
/// The blob account of development.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The key of app servers in development.
pub const HUBS: &str = "signalr";

/// The well-known keys of development: those of the services' emulators, so that pasted
/// connection strings work.
pub fn development_ring() -> KeyRing {
    let mut ring = KeyRing::new();
    let known = [
        (ROOT, "SAS_KEY_VALUE", "manage *"),
        (
            ACCOUNT,
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
            "manage events",
        ),
        (
            HUBS,
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH",
            "manage realtime",
        ),
    ];
    for (name, secret, right) in known {
        ring.add(Key {
            name: name.to_owned(),
            grants: vec![right.parse().expect("it is written as it should be")],
            primary: Secret::new(secret),
            secondary: None,
        });
    }
    ring
}
