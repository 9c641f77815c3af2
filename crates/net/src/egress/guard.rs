//! Checks the targets of outbound requests.
//!
//! A name is resolved once per request: its addresses are checked together with the port,
//! and the connection uses a checked address, so that a name cannot resolve differently
//! between check and use. Every redirect is a request of its own.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use parking_lot::RwLock;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::{EgressPolicy, literal};

/// Decides which addresses may be called.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Networks and ports.
    pub policy: EgressPolicy,
    /// Whether the server's own ports may be called.
    pub allow_own: bool,
    /// The server's own ports, which are known once they are open.
    pub own: Arc<RwLock<Vec<SocketAddr>>>,
    /// Whether a proxy resolves names, maybe ones that this server cannot: then only IP
    /// addresses are checked here.
    pub is_proxied: bool,
}

impl Guard {
    /// Resolves the host of a URL, and keeps the addresses that may be called.
    pub async fn resolve(&self, url: &Url) -> Result<AllowedHost, String> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(0);
        let found = match literal(url) {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None if self.is_proxied => return self.proxied(host, port),
            None => {
                let found = tokio::net::lookup_host((host, port)).await;
                let found = found.map_err(|_| format!("the name '{host}' cannot be resolved"))?;
                found.collect()
            }
        };
        let mut refusal = format!("the name '{host}' has no address");
        let mut open = Vec::new();
        for address in found {
            match self.judge(host, address) {
                Ok(()) => open.push(address),
                Err(why) => refusal = why,
            }
        }
        if open.is_empty() {
            Err(refusal)
        } else {
            Ok(AllowedHost {
                host: host.to_owned(),
                addresses: open,
            })
        }
    }

    /// Checks a name that the proxy resolves. Loopback names mean the proxy's own machine.
    fn proxied(&self, host: &str, port: u16) -> Result<AllowedHost, String> {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if name == "localhost" || name.ends_with(".localhost") {
            self.policy
                .judge(SocketAddr::from(([127, 0, 0, 1], port)))?;
        }
        Ok(AllowedHost::default())
    }

    fn judge(&self, host: &str, address: SocketAddr) -> Result<(), String> {
        self.policy.judge(address)?;
        if !self.allow_own && self.is_own(address) {
            let port = address.port();
            return Err(format!("'{host}' on port {port} is this server itself"));
        }
        Ok(())
    }

    /// Whether an address is one of the server's own ports.
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

tokio::task_local! {
    /// The addresses that the current request may connect to.
    static JUDGED: AllowedHost;
}

/// A host and its permitted addresses.
#[derive(Clone, Debug, Default)]
pub struct AllowedHost {
    host: String,
    addresses: Vec<SocketAddr>,
}

impl AllowedHost {
    /// Runs a request that connects to these addresses only.
    ///
    /// Connecting starts in the task of the request, where the resolver finds them.
    pub async fn only<F: Future>(self, request: F) -> F::Output {
        JUDGED.scope(self, request).await
    }
}

/// The resolver of connections. It does no lookup: it returns the permitted addresses.
#[derive(Clone)]
pub(super) struct AllowedHostResolver {
    /// The proxy, which the configuration names.
    proxy: Option<String>,
}

impl AllowedHostResolver {
    pub(super) fn new(proxy: Option<&str>) -> Self {
        let host = |text: &str| Some(Url::parse(text).ok()?.host_str()?.to_owned());
        // A proxy may be written without a scheme; then http is used.
        let host = proxy.and_then(|own| host(own).or_else(|| host(&format!("http://{own}"))));
        Self { proxy: host }
    }
}

impl Resolve for AllowedHostResolver {
    fn resolve(&self, name: Name) -> Resolving {
        if self.proxy.as_deref() == Some(name.as_str()) {
            return Box::pin(async move {
                let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                let found: Addrs = Box::new(found.collect::<Vec<_>>().into_iter());
                Ok(found)
            });
        }
        let judged = JUDGED.try_with(|judged| {
            let is_it = judged.host.eq_ignore_ascii_case(name.as_str());
            is_it.then(|| judged.addresses.clone())
        });
        Box::pin(async move {
            let judged = judged.ok().flatten();
            let judged = judged.ok_or("the address of the host was not checked")?;
            let judged: Addrs = Box::new(judged.into_iter());
            Ok(judged)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_open(guard: &Guard, url: &str) -> bool {
        guard.resolve(&Url::parse(url).unwrap()).await.is_ok()
    }

    fn development() -> Guard {
        Guard {
            policy: EgressPolicy::with_private(),
            ..Guard::default()
        }
    }

    #[tokio::test]
    async fn metadata_and_link_local_addresses_are_closed() {
        let guard = development();
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
    async fn a_name_is_open_if_one_of_its_addresses_is_and_goes_nowhere_else() {
        let mut guard = Guard::default();
        for url in ["http://localhost/", "http://localhost./", "http://127.1/"] {
            assert!(!is_open(&guard, url).await, "{url}");
        }
        guard.policy.allow = vec!["127.0.0.1:81".parse().unwrap()];
        assert!(!is_open(&guard, "http://localhost/").await);
        let url = Url::parse("http://localhost:81/").unwrap();
        let judged = guard.resolve(&url).await.unwrap();
        assert_eq!(judged.addresses, ["127.0.0.1:81".parse().unwrap()]);
    }

    #[tokio::test]
    async fn our_own_ports_are_closed_by_any_name() {
        let guard = development();
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

    #[tokio::test]
    async fn behind_a_proxy_names_of_loopback_are_judged() {
        let mut guard = Guard {
            is_proxied: true,
            ..Guard::default()
        };
        for url in [
            "http://localhost/",
            "http://a.LOCALHOST./",
            "http://10.0.0.1/",
        ] {
            assert!(!is_open(&guard, url).await, "{url}");
        }
        assert!(is_open(&guard, "http://inside.invalid/").await);
        guard.policy.is_private_open = true;
        assert!(is_open(&guard, "http://localhost/").await);
    }

    #[test]
    fn a_proxy_is_known_with_and_without_its_scheme() {
        for text in [
            "http://proxy.corp:3128",
            "https://proxy.corp",
            "proxy.corp:3128",
            "proxy.corp",
            "user:secret@proxy.corp:3128",
        ] {
            let resolver = AllowedHostResolver::new(Some(text));
            assert_eq!(resolver.proxy.as_deref(), Some("proxy.corp"), "{text}");
        }
        assert_eq!(AllowedHostResolver::new(None).proxy, None);
    }

    #[tokio::test]
    async fn a_connection_goes_to_what_was_judged_without_a_second_lookup() {
        let resolver = AllowedHostResolver::new(None);
        let resolve = async |name: &str| {
            let found = resolver.resolve(name.parse().unwrap()).await;
            found.map(|found| found.collect::<Vec<_>>()).ok()
        };
        assert_eq!(resolve("localhost").await, None, "nothing was judged");
        // A name that no resolver knows, with a permitted address.
        let judged = AllowedHost {
            host: "a.invalid".to_owned(),
            addresses: vec!["127.0.0.9:81".parse().unwrap()],
        };
        let addresses = judged.addresses.clone();
        let found = judged.clone().only(resolve("a.invalid")).await;
        assert_eq!(found, Some(addresses));
        assert_eq!(judged.only(resolve("localhost")).await, None);
    }
}
