//! HTTP clients of outbound calls: pools, trust, proxy.
//!
//! One HTTP client serves all calls; each client certificate has one of its own, because
//! a certificate belongs to the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Certificate, Client, Identity, Proxy};
use steadfast_core::limits;

use super::call_permit::CallPermit;
use super::guard::{AllowedHostResolver, Guard};
use crate::scheduler::{Pkcs12, SecretKey};

/// Options of outbound calls.
#[derive(Clone, Debug)]
pub struct Options {
    pub guard: Guard,
    /// Certificates in PEM that are trusted beside those of the system.
    pub roots: Option<Vec<u8>>,
    /// A proxy for all calls.
    pub proxy: Option<String>,
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
            guard: Guard::default(),
            roots: None,
            proxy: None,
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
        // Another caller may have installed the same provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
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
    let resolver = AllowedHostResolver::new(options.proxy.as_deref());
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(resolver))
        .pool_max_idle_per_host(limits::HOST_CALLS)
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")));
    if let Some(permit) = &options.permit {
        builder = builder.connector_layer(permit.clone());
    }
    if let Some(roots) = &options.roots {
        let roots = Certificate::from_pem_bundle(roots).map_err(|error| error.to_string())?;
        builder = builder.tls_certs_merge(roots);
    }
    if let Some(proxy) = &options.proxy {
        builder = builder.proxy(Proxy::all(proxy).map_err(|error| error.to_string())?);
    }
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| error.to_string())
}
