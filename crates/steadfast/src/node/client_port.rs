//! Ports of clients: bound before any state is opened.

use std::net::SocketAddr;
use std::sync::Arc;

use steadfast_core::task::name_task;
use steadfast_net::http::{Routes, serve};
use steadfast_net::listen::{Certificate, ConnectionStream, Listener, ListenerOptions};
use tokio_util::sync::CancellationToken;

use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use crate::config::Config;

/// A port that is open but not served yet.
pub(super) struct ClientPort {
    name: &'static str,
    listener: Listener,
}

impl ClientPort {
    /// Opens a port, encrypted if there is a certificate, for these protocols.
    pub(super) fn bind(
        name: &'static str,
        config: &Config,
        port: u16,
        certificate: Option<&Arc<Certificate>>,
        protocols: &[&str],
    ) -> Result<Self> {
        let listener = Listener::bind(ListenerOptions {
            address: config.address(port),
            tls: certificate.map(|certificate| certificate.server(protocols)),
            connections: config.connections,
        })?;
        Ok(Self { name, listener })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.listener.is_encrypted()
    }

    /// The scheme of its URL, if it speaks HTTP.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_encrypted() { "https" } else { "http" }
    }

    /// Serves HTTP until the node stops, so that clients can finish during a drain.
    pub(super) fn serve_http(self, inner: &Arc<Inner>, routes: Routes) {
        let (scheme, connections) = (self.scheme(), inner.stop.clone());
        self.serve(inner, scheme, inner.stop.clone(), move |stream, peer| {
            name_task(serve(stream, peer, routes.clone(), connections.clone()))
        });
    }

    /// Serves connections until `stop`. The address is shown, and no job may call it.
    pub(super) fn serve<S, F>(
        self,
        inner: &Arc<Inner>,
        scheme: &str,
        stop: CancellationToken,
        serve: S,
    ) where
        S: Fn(ConnectionStream, SocketAddr) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let address = self.listener.address();
        inner.services.addresses.write().push(address);
        inner.addresses.lock().push(ListenAddress {
            name: self.name,
            url: format!("{scheme}://{address}"),
        });
        let listener = self.listener.with_governor(&inner.governor);
        inner
            .tasks
            .spawn(listener.run(stop, inner.tasks.clone(), serve));
    }
}
