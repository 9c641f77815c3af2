//! Where no request may go.
//!
//! Addresses are checked after names are resolved, at every redirect, and again by
//! the resolver that the connection itself uses, so that a name cannot mean one
//! thing when it is checked and another when it is used. Link-local addresses,
//! where clouds keep their metadata, are closed unless they are opened; so are our
//! own ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use parking_lot::RwLock;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::network::Network;

/// Says which addresses may be called.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Open whatever else is said.
    pub allow: Vec<Network>,
    /// Closed beside what is closed anyway.
    pub deny: Vec<Network>,
    /// Whether our own ports may be called.
    pub allow_own: bool,
    /// Our own ports; they become known when they are open.
    pub own: Arc<RwLock<Vec<SocketAddr>>>,
    /// A proxy resolves names, maybe such as we cannot; only bare addresses are
    /// checked here then.
    pub is_proxied: bool,
}

/// Metadata services that are not at a link-local address.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl Guard {
    /// Resolves the host of an address and checks all that it may mean.
    pub(crate) async fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(0);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if self.is_proxied && host.parse::<IpAddr>().is_err() {
            return Ok(());
        }
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found.map_err(|_| format!("the name '{host}' cannot be resolved"))?;
        let mut is_any = false;
        for address in found {
            is_any = true;
            self.check_address(address.ip())?;
            if !self.allow_own && self.is_own(address) {
                return Err(format!("'{host}' on port {port} is this server itself"));
            }
        }
        match is_any {
            true => Ok(()),
            false => Err(format!("the name '{host}' has no address")),
        }
    }

    fn check_address(&self, address: IpAddr) -> Result<(), String> {
        let address = address.to_canonical();
        if self.allow.iter().any(|network| network.holds(address)) {
            return Ok(());
        }
        let is_closed = match address {
            IpAddr::V4(v4) => {
                v4.is_link_local() || v4.is_multicast() || v4.is_broadcast() || v4 == METADATA_V4
            }
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast() || v6 == METADATA_V6,
        };
        if is_closed || self.deny.iter().any(|network| network.holds(address)) {
            return Err(format!("calls to the address {address} are not allowed"));
        }
        Ok(())
    }

    /// Whether an address leads back to one of our ports.
    fn is_own(&self, address: SocketAddr) -> bool {
        let asked = address.ip().to_canonical();
        let own = self.own.read();
        own.iter()
            .filter(|own| own.port() == address.port())
            .any(|own| {
                let ip = own.ip().to_canonical();
                let is_everywhere = ip.is_unspecified() || asked.is_unspecified();
                ip == asked || is_everywhere && is_of_this_machine(asked)
            })
    }
}

/// Only an address of this machine can be bound here.
fn is_of_this_machine(address: IpAddr) -> bool {
    address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

/// The resolver that connections use: it gives no address that is closed.
#[derive(Clone)]
pub(crate) struct Guarded(pub(crate) Guard);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut open = Vec::new();
            for address in found {
                guard.check_address(address.ip())?;
                open.push(address);
            }
            let addresses: Addrs = Box::new(open.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_open(guard: &Guard, url: &str) -> bool {
        guard.check(&Url::parse(url).unwrap()).await.is_ok()
    }

    #[tokio::test]
    async fn metadata_and_link_local_addresses_are_closed() {
        let guard = Guard::default();
        for url in [
            "http://169.254.169.254/latest",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://100.100.100.200/",
            "http://2852039166/",
        ] {
            assert!(!is_open(&guard, url).await, "{url}");
        }
        assert!(is_open(&guard, "http://127.0.0.1:9/").await);
    }

    #[tokio::test]
    async fn lists_open_and_close() {
        let guard = Guard {
            allow: vec!["169.254.0.0/16".parse().unwrap()],
            deny: vec!["127.0.0.0/8".parse().unwrap()],
            ..Guard::default()
        };
        assert!(is_open(&guard, "http://169.254.1.1/").await);
        assert!(!is_open(&guard, "http://127.0.0.1/").await);
        assert!(
            !is_open(&guard, "http://localhost/").await || !is_open(&guard, "http://127.1/").await
        );
        assert!("10.0.0.0/33".parse::<Network>().is_err());
    }

    #[tokio::test]
    async fn our_own_ports_are_closed_by_any_name() {
        let guard = Guard::default();
        guard.own.write().push("0.0.0.0:7070".parse().unwrap());
        for url in [
            "http://127.0.0.1:7070/",
            "http://localhost:7070/",
            "http://0.0.0.0:7070/",
        ] {
            assert!(!is_open(&guard, url).await, "{url}");
        }
        assert!(is_open(&guard, "http://127.0.0.1:7071/").await);
        let open = Guard {
            allow_own: true,
            ..guard
        };
        assert!(is_open(&open, "http://127.0.0.1:7070/").await);
    }
}
