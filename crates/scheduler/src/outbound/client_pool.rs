//! HTTP clients of outbound calls: pools, trust, proxy.
//!
//! One HTTP client serves all calls; each client certificate has one of its own, because
//! a certificate belongs to the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, Identity};
use steadfast_net::egress::ConnectOptions;

use super::call_permit::CallPermit;
use crate::{Pkcs12, SecretKey};

/// Options of outbound calls.
#[derive(Clone, Debug)]
pub struct Options {
    pub connect: ConnectOptions,
    /// The OAuth authority: `{authority}/{tenant}/oauth2/token`.
    pub authority: String,
    /// Addresses of storage accounts and namespaces outside of the default domains, by name.
    pub endpoints: HashMap<String, String>,
    /// The region that is reported to targets.
    pub region: String,
    /// Time-out of an attempt.
    pub timeout: Duration,
    /// Decrypts the secrets of jobs.
    pub key: SecretKey,
    /// Whether this server may make calls, if that can be revoked.
    pub permit: Option<CallPermit>,
}

impl Options {
    /// The tenure of calls that may be made now; `Err` if none may. Without a permit it is
    /// constant.
    pub(crate) fn tenure(&self) -> Result<u64, String> {
        let tenure = self.permit.as_ref().map_or(Ok(0), CallPermit::tenure);
        tenure.map_err(str::to_owned)
    }

    /// Whether a call of this tenure may be made now.
    pub(crate) fn check(&self, tenure: u64) -> Result<(), String> {
        if self.tenure()? == tenure {
            Ok(())
        } else {
            Err("another one may have run this job in between".to_owned())
        }
    }
}

impl Options {
    /// The default options, with the key of the stored secrets.
    pub fn new(key: SecretKey) -> Self {
        Self {
            connect: ConnectOptions::default(),
            authority: "https://login.microsoftonline.com".into(),
            endpoints: HashMap::new(),
            region: "local".into(),
            timeout: Duration::from_secs(60),
            key,
            permit: None,
        }
    }
}

/// Maximum number of certificates with pooled connections.
const IDENTITIES: usize = 64;

/// Creates and caches HTTP clients.
pub(crate) struct ClientPool {
    options: Arc<Options>,
    plain: Client,
    by_thumbprint: Mutex<HashMap<String, Client>>,
}

impl ClientPool {
    pub(crate) fn new(options: Arc<Options>) -> Result<Self, String> {
        Ok(Self {
            plain: build(&options, None)?,
            options,
            by_thumbprint: Mutex::default(),
        })
    }

    /// The client without a certificate.
    pub(crate) fn plain(&self) -> Client {
        self.plain.clone()
    }

    /// The client with a certificate.
    pub(crate) fn with(&self, pfx: &str, password: &str) -> Result<Client, String> {
        let identity = Pkcs12::read(pfx, password)?;
        let mut known = self.by_thumbprint.lock();
        if let Some(client) = known.get(&identity.thumbprint) {
            return Ok(client.clone());
        }
        let pem = identity.pem();
        let own = Identity::from_pem(&pem).map_err(|_| "the client certificate cannot be used")?;
        let client = build(&self.options, Some(own))?;
        if known.len() >= IDENTITIES {
            known.clear();
        }
        known.insert(identity.thumbprint, client.clone());
        Ok(client)
    }
}

fn build(options: &Options, identity: Option<Identity>) -> Result<Client, String> {
    let mut builder = options.connect.client()?;
    if let Some(permit) = &options.permit {
        builder = builder.connector_layer(permit.clone());
    }
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| error.to_string())
}
