//! The real client of a request behind proxies.
//!
//! Any client can send `X-Forwarded-For`. It counts only if the peer is a trusted proxy
//! of the configuration; then the last address that was not added by a trusted proxy is
//! the client's.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;

use crate::access::AuditClient;
use crate::network::IpNetwork;

/// The peer address of the connection.
#[derive(Clone, Copy)]
pub(super) struct PeerAddress(pub(super) SocketAddr);

/// The client of a request, and how it reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedClient {
    pub address: IpAddr,
    /// The scheme of the client's request, as a trusted proxy reports it.
    pub scheme: Option<String>,
    /// The host of the client's request, as a trusted proxy reports it.
    pub host: Option<String>,
}

/// Networks of trusted proxies.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNetwork>);

impl TrustedProxies {
    /// Trusts these addresses and networks.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let networks = texts
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self(networks))
    }

    /// Whether an address is one of them.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.holds(address))
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ForwardedClient {
        if !self.trusts(peer) {
            return ForwardedClient {
                address: peer,
                scheme: None,
                host: None,
            };
        }
        // A proxy may append a line of its own: the last one counts.
        let lines = |name: &'static str| headers.get_all(name).iter().rev();
        let text = |name: &'static str| {
            let line = lines(name).next()?.to_str().ok()?;
            line.rsplit(',').next().map(|last| last.trim().to_owned())
        };
        let hops = lines("x-forwarded-for").map(|line| line.to_str().unwrap_or_default());
        let hops = hops.flat_map(|line| line.rsplit(','));
        let hops = hops.map_while(|hop| hop.trim().parse().ok());
        let mut address = peer;
        for hop in hops {
            address = hop;
            if !self.trusts(hop) {
                break;
            }
        }
        ForwardedClient {
            address,
            scheme: text("x-forwarded-proto"),
            host: text("x-forwarded-host"),
        }
    }
}

/// Adds a [`ForwardedClient`] to the request, and removes untrusted headers.
pub(super) async fn apply(
    State(proxies): State<Arc<TrustedProxies>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(PeerAddress(peer)) = request.extensions().get::<PeerAddress>().copied() {
        let client = proxies.client(peer.ip().to_canonical(), request.headers());
        let headers = request.headers_mut();
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "forwarded",
        ] {
            headers.remove(name);
        }
        let asker = AuditClient::at(client.address);
        request.extensions_mut().insert(client);
        return asker.scope(next.run(request)).await;
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &[&str], peer: &str, hops: &str) -> String {
        let proxies = TrustedProxies::new(proxies.iter().copied()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", hops.parse().unwrap());
        let client = proxies.client(peer.parse().unwrap(), &headers);
        client.address.to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(client(&[], "10.0.0.1", "1.2.3.4"), "10.0.0.1");
        assert_eq!(client(&["10.0.0.0/8"], "10.0.0.1", "1.2.3.4"), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "11.0.0.1", "1.2.3.4"), "11.0.0.1");
    }

    #[test]
    fn what_a_client_writes_itself_does_not_count() {
        let hops = "6.6.6.6, 1.2.3.4, 10.0.0.2";
        assert_eq!(client(&["10.0.0.0/8"], "10.0.0.1", hops), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.0.0.1", "nonsense"), "10.0.0.1");
    }

    #[test]
    fn a_line_that_a_client_has_brought_does_not_hide_the_one_of_the_proxy() {
        let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
        let mut headers = HeaderMap::new();
        for line in ["6.6.6.6", "1.2.3.4, 10.0.0.2"] {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        for scheme in ["ftp", "https"] {
            headers.append("x-forwarded-proto", scheme.parse().unwrap());
        }
        let client = proxies.client("10.0.0.1".parse().unwrap(), &headers);
        assert_eq!(client.address.to_string(), "1.2.3.4");
        assert_eq!(client.scheme.as_deref(), Some("https"));
    }

    #[test]
    fn networks_are_read_and_nonsense_is_refused() {
        assert_eq!(client(&["::1"], "::1", "2001:db8::7"), "2001:db8::7");
        assert_eq!(client(&["0.0.0.0/0"], "9.9.9.9", "1.2.3.4"), "1.2.3.4");
        for text in ["10.0.0.0/33", "host", "10.0.0.0/x", ""] {
            assert!(TrustedProxies::new([text]).is_err(), "{text}");
        }
    }
}
