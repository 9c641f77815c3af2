//! HTTP clients of outbound calls: resolver, trust, proxy.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Proxy};
use steadfast_core::limits;

use super::guard::{AllowedHostResolver, Guard};

/// How the clients of outbound calls connect.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub guard: Guard,
    /// Certificates in PEM that are trusted beside those of the system.
    pub roots: Option<Vec<u8>>,
    /// A proxy for all calls.
    pub proxy: Option<String>,
}

impl ConnectOptions {
    /// A client that connects to checked addresses only, and follows no redirect. Fails if
    /// the authorities or the proxy are invalid.
    pub fn client(&self) -> Result<ClientBuilder, String> {
        // Another caller may have installed the same provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let resolver = AllowedHostResolver::new(self.proxy.as_deref());
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(resolver))
            .pool_max_idle_per_host(limits::HOST_CALLS)
            .pool_idle_timeout(Duration::from_secs(60))
            .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")));
        if let Some(roots) = &self.roots {
            let roots = Certificate::from_pem_bundle(roots).map_err(|error| error.to_string())?;
            builder = builder.tls_certs_merge(roots);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(Proxy::all(proxy).map_err(|error| error.to_string())?);
        }
        Ok(builder)
    }
}

/// The root cause of an error, as text.
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let kind = match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "no connection",
        error if error.is_body() => "the answer broke off",
        _ => "the request failed",
    };
    format!("{kind}: {deepest}")
}
