//! Connection strings for the key of a context.
//!
//! The server returns the name of the key, its rights and its ports. The secret comes from
//! the context: no server returns one.

use anyhow::{Context as _, Result};
use reqwest::Method;
use steadfast::admin::CallerIdentity;
use steadfast::net::access::{Grant, Key, ROOT, Secret, development_ring};
use steadfast::net::connection_string::{ClientKeys, ConnectionString, Endpoint};

use crate::server_client::ServerClient;
use crate::server_context::ServerContext;

/// The name of a context's key and its connection strings.
pub(crate) fn strings(server: ServerContext) -> Result<(String, Vec<ConnectionString>)> {
    let (url, secret) = (server.url.clone(), server.key.clone());
    let identity: CallerIdentity =
        ServerClient::of(server)?.request(Method::GET, "/v1/me", None)?;
    let CallerIdentity {
        name,
        rights,
        development,
        listeners,
    } = identity;
    let grants = rights.iter().map(|right| right.parse::<Grant>());
    let grants = grants.collect::<Result<_, _>>();
    let key = Key {
        name: name.clone(),
        grants: grants.context("the server is newer than this command")?,
        primary: Secret::new(secret),
        secondary: None,
    };
    let keys = if !development {
        Some(ClientKeys::of(key))
    } else if name == ROOT {
        // Its secret is too short for some SDKs, so the emulator keys are listed too.
        ClientKeys::known(&development_ring())
    } else {
        Some(ClientKeys::of(key).open())
    };
    let endpoint = Endpoint::new(&url, listeners);
    let endpoint = endpoint.with_context(|| format!("{url} is no address for clients"))?;
    Ok((name, endpoint.strings(&keys.context("there is no key")?)))
}
