//! One entry of the allow and deny lists.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::str::FromStr;

use super::network_kind::{NetworkKind, is_metadata, is_reserved, network_kind};
use crate::network::IpNetwork;

/// Addresses, at all ports or at one: `10.0.0.0/8`, `10.1.2.3:8443`, `[fd00::/8]:443`,
/// `private`, `*:25`, `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressRule {
    hosts: RuleHosts,
    port: Option<NonZeroU16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleHosts {
    All,
    Private,
    Network(IpNetwork),
}

impl FromStr for EgressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{text}' is no entry such as 10.0.0.0/8, 10.1.2.3:8443, [fd00::/8]:443, \
                 private or *:25"
            )
        };
        let (hosts, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (hosts, port) = rest.split_once(']').ok_or_else(bad)?;
                match port {
                    "" => (hosts, None),
                    port => (hosts, Some(port.strip_prefix(':').ok_or_else(bad)?)),
                }
            }
            // More colons are an IPv6 address.
            None if text.matches(':').count() == 1 => {
                let (hosts, port) = text.split_once(':').ok_or_else(bad)?;
                (hosts, Some(port))
            }
            None => (text, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| bad())?;
        let hosts = match hosts {
            "*" => RuleHosts::All,
            "private" => RuleHosts::Private,
            network => RuleHosts::Network(network.parse().map_err(|_| bad())?),
        };
        Ok(Self { hosts, port })
    }
}

impl EgressRule {
    /// Whether it is `*`, every address at every port.
    pub(super) fn is_all(&self) -> bool {
        self.hosts == RuleHosts::All && self.port.is_none()
    }

    /// Whether it opens an address at a port. A metadata service needs an entry with exactly
    /// its address; another reserved address may also be opened by a network that is reserved
    /// as a whole. A wider network opens only the ordinary hosts in it.
    pub(super) fn opens(&self, address: IpAddr, port: u16) -> bool {
        self.holds(address, port)
            && match self.hosts {
                _ if network_kind(address) != NetworkKind::Reserved => true,
                RuleHosts::All | RuleHosts::Private => false,
                RuleHosts::Network(network) if is_metadata(address) => network.is_single(),
                RuleHosts::Network(network) => network.is_single() || is_reserved(&network),
            }
    }

    /// Whether it covers an address at a port.
    pub(super) fn holds(&self, address: IpAddr, port: u16) -> bool {
        let is_port = self.port.is_none_or(|own| own.get() == port);
        let is_host = match self.hosts {
            RuleHosts::All => true,
            RuleHosts::Private => network_kind(address) == NetworkKind::Private,
            RuleHosts::Network(network) => network.holds(address),
        };
        is_port && is_host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_networks_and_ports() {
        for (entry, address, port, is_held) in [
            ("10.0.0.0/8", "10.9.8.7", 1, true),
            ("10.0.0.0/8", "11.0.0.1", 1, false),
            ("10.1.2.3:8443", "10.1.2.3", 8443, true),
            ("10.1.2.3:8443", "10.1.2.3", 443, false),
            ("10.0.0.0/8:443", "10.9.8.7", 443, true),
            ("*:25", "8.8.8.8", 25, true),
            ("*:25", "8.8.8.8", 26, false),
            ("*", "::1", 1, true),
            ("private", "192.168.0.1", 80, true),
            ("private", "169.254.169.254", 80, false),
            ("private:80", "::1", 80, true),
            ("private:80", "::1", 81, false),
            ("fd00::/8", "fd12::1", 5, true),
            ("[fd00::/8]:443", "fd12::1", 443, true),
            ("[fd00::/8]:443", "fd12::1", 80, false),
            ("[::1]", "::1", 7, true),
        ] {
            let rule: EgressRule = entry.parse().unwrap();
            let held = rule.holds(address.parse().unwrap(), port);
            assert_eq!(held, is_held, "{entry} {address}:{port}");
        }
        for bad in [
            "",
            ":25",
            "*:",
            "*:0",
            "*:65536",
            "10.0.0.0/33",
            "example.com",
            "[::1",
            "[::1]443",
            "10.0.0.1:http",
        ] {
            assert!(bad.parse::<EgressRule>().is_err(), "{bad}");
        }
    }
}
