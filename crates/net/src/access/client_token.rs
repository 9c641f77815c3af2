//! Tokens for clients of hubs.

use std::time::Duration;

use serde_json::{Map, json};
use steadfast_core::clock::Timestamp;
use steadfast_wire::jwt;

/// The reserved name of the key with which the server signs tokens for clients of hubs.
pub const CLIENT_KEY: &str = "server/client-tokens";

/// The contents of a client token.
#[derive(Clone, Debug, Default)]
pub struct ClientTokenOptions {
    /// The hub that it grants access to.
    pub hub: String,
    /// The user of the connections, if any.
    pub user: Option<String>,
    /// Further claims.
    pub claims: Vec<(String, String)>,
    /// How long it is valid.
    pub lifetime: Duration,
}

/// A token for a client, signed with the secret of a key.
pub fn client_token(wish: &ClientTokenOptions, host: &str, secret: &str, now: Timestamp) -> String {
    let mut claims = Map::new();
    for (name, value) in &wish.claims {
        claims.insert(name.clone(), json!(value));
    }
    if let Some(user) = &wish.user {
        claims.insert("asrs.s.uid".to_owned(), json!(user));
    }
    let hub = wish.hub.to_ascii_lowercase();
    let ends = now.plus(wish.lifetime).0 / 1000;
    claims.insert(
        "aud".to_owned(),
        json!(format!("http://{host}/client/?hub={hub}")),
    );
    claims.insert("exp".to_owned(), json!(ends));
    jwt::token(&claims, secret)
}
