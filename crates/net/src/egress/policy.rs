//! The egress policy: which addresses may be called.

use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use super::network_kind::{NetworkKind, meanings, network_kind};
use super::rule::EgressRule;

/// The code of a refused call.
const CODE: &str = "STF-6060";

/// Decides which addresses and ports may be called.
///
/// `deny` wins over `allow`, except for the entry `*`, which closes everything that `allow`
/// does not name. An address that neither names is open if it is public, closed if it is
/// reserved (metadata services, link-local, multicast), and subject to `is_private_open`
/// if it is private. A reserved address needs an entry of its own: a wide network in
/// `allow` does not open it.
#[derive(Clone, Debug, Default)]
pub struct EgressPolicy {
    pub allow: Vec<EgressRule>,
    pub deny: Vec<EgressRule>,
    /// Whether loopback and private networks are open.
    pub is_private_open: bool,
}

impl EgressPolicy {
    /// A policy that leaves loopback and private networks open.
    pub fn with_private() -> Self {
        Self {
            is_private_open: true,
            ..Self::default()
        }
    }

    /// Checks one address at one port. The error says why it is closed.
    pub fn judge(&self, to: SocketAddr) -> Result<(), String> {
        let closed = |why: &str| {
            let to = SocketAddr::new(to.ip().to_canonical(), to.port());
            Err(format!("{CODE}: a call to {to} is not allowed: {why}"))
        };
        let ends = meanings(to.ip());
        let named = |rule: &&EgressRule| rule.holds(to.ip(), to.port());
        let ends_in = |rule: &&EgressRule| ends.iter().any(|end| rule.holds(*end, to.port()));
        let mut denied = self.deny.iter().filter(|rule| !rule.is_all());
        if denied.any(|rule| named(&rule) || ends_in(&rule)) {
            return closed("the setting jobs.deny closes it");
        }
        let is_allowed = |end: &IpAddr| {
            let mut rules = self.allow.iter();
            rules.any(|rule| rule.opens(*end, to.port()))
        };
        if is_allowed(&to.ip()) || ends.iter().all(is_allowed) && !ends.is_empty() {
            return Ok(());
        }
        if self.deny.iter().any(EgressRule::is_all) {
            return closed("the setting jobs.deny closes all that jobs.allow does not name");
        }
        match network_kind(to.ip()) {
            NetworkKind::Public => Ok(()),
            NetworkKind::Private if self.is_private_open => Ok(()),
            NetworkKind::Private => closed(
                "private networks and loopback are closed unless the setting jobs.allow names them",
            ),
            NetworkKind::Reserved => closed(
                "metadata services are closed unless the setting jobs.allow names the single \
                 address, link-local and group addresses unless it names their network",
            ),
        }
    }

    /// Checks a URL whose host is an IP address; names are checked when they are resolved.
    pub fn judge_literal(&self, url: &Url) -> Result<(), String> {
        let Some(ip) = literal(url) else {
            return Ok(());
        };
        let port = url.port_or_known_default().unwrap_or(0);
        self.judge(SocketAddr::new(ip, port))
    }
}

/// The IP address of a host that is written as numbers.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_matches(['[', ']']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str], is_private_open: bool) -> EgressPolicy {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        EgressPolicy {
            allow: rules(allow),
            deny: rules(deny),
            is_private_open,
        }
    }

    #[track_caller]
    fn check(policy: &EgressPolicy, open: &[&str], closed: &[&str]) {
        for to in open {
            assert_eq!(policy.judge(to.parse().unwrap()), Ok(()), "{to}");
        }
        for to in closed {
            let why = policy.judge(to.parse().unwrap()).expect_err(to);
            assert!(why.starts_with("STF-6060: "), "{why}");
        }
    }

    #[test]
    fn a_server_calls_the_internet_and_development_also_its_own_network() {
        let reserved = [
            "169.254.169.254:80",
            "[fe80::1]:80",
            "0.0.0.0:80",
            "[::]:80",
        ];
        let private = [
            "127.0.0.1:80",
            "10.0.0.1:443",
            "[::1]:80",
            "[::ffff:10.0.0.1]:80",
        ];
        let served = policy(&[], &[], false);
        check(&served, &["8.8.8.8:443"], &reserved);
        check(&served, &[], &private);
        check(&policy(&[], &[], true), &private, &reserved);
    }

    #[test]
    fn an_allowed_port_opens_no_other_and_a_denied_one_wins() {
        let served = policy(
            &["127.0.0.1:8080", "10.0.0.0/8"],
            &["*:25", "10.9.0.0/16"],
            false,
        );
        check(
            &served,
            &[
                "127.0.0.1:8080",
                "[::ffff:127.0.0.1]:8080",
                "10.1.1.1:80",
                "8.8.8.8:80",
            ],
            &[
                "127.0.0.1:8081",
                "127.0.0.2:8080",
                "10.1.1.1:25",
                "8.8.8.8:25",
                "10.9.1.1:80",
            ],
        );
        let denied_inside = ["[64:ff9b::10.9.1.1]:80", "[2002:a09:101::1]:80"];
        check(&served, &["[64:ff9b::10.1.1.1]:80"], &denied_inside);
    }

    #[test]
    fn a_star_in_deny_leaves_what_allow_names() {
        let listed = policy(&["10.1.2.3:8443"], &["*"], true);
        check(
            &listed,
            &["10.1.2.3:8443"],
            &["8.8.8.8:443", "10.1.2.3:80", "127.0.0.1:80"],
        );
    }

    #[test]
    fn metadata_is_opened_by_its_own_address_only() {
        let metadata = [
            "169.254.169.254:80",
            "169.254.170.2:80",
            "168.63.129.16:80",
            "100.100.100.200:80",
            "192.0.0.192:80",
            "[fd00:ec2::254]:80",
            "[fd00:ec2::23]:80",
            "[fd20:ce::254]:80",
            "[::ffff:169.254.169.254]:80",
            "[64:ff9b::100.100.100.200]:80",
        ];
        for (wide, open) in [
            ("*", "127.0.0.1:80"),
            ("private", "127.0.0.1:80"),
            ("*:80", "127.0.0.1:80"),
            ("0.0.0.0/0", "10.0.0.1:80"),
            ("::/0", "[fd12::1]:80"),
            ("fd00::/8", "[fd00:ec2::253]:80"),
            ("fd00:ec2::/64", "[fd00:ec2::253]:80"),
            ("100.64.0.0/10", "100.100.100.201:80"),
            ("100.100.100.200/31", "100.100.100.201:80"),
            ("169.254.0.0/16", "169.254.1.1:80"),
            ("64:ff9b::/96", "[64:ff9b::10.0.0.1]:80"),
        ] {
            check(&policy(&[wide], &[], false), &[open], &metadata);
        }
        for to in metadata {
            let to: SocketAddr = to.parse().unwrap();
            let single = policy(&[&to.ip().to_canonical().to_string()], &[], false);
            check(&single, &[&to.to_string()], &["169.254.169.253:80"]);
        }
    }

    #[test]
    fn other_reserved_addresses_take_a_reserved_network() {
        for (network, inside, outside) in [
            ("169.254.7.0/24", "169.254.7.1:80", "169.254.8.1:80"),
            ("169.254.7.1", "169.254.7.1:80", "169.254.7.2:80"),
            ("239.0.0.0/8", "239.1.1.1:80", "224.0.0.1:80"),
            ("fe80::/10", "[fe80::1]:80", "[ff02::1]:80"),
            ("ff00::/8", "[ff02::1]:80", "[fe80::1]:80"),
        ] {
            check(&policy(&[network], &[], false), &[inside], &[outside]);
        }
        let reserved = [
            "0.0.0.0:80",
            "169.254.7.1:80",
            "224.0.0.1:80",
            "[::]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
        ];
        for wide in [
            "0.0.0.0/0",
            "169.0.0.0/8",
            "192.0.0.0/2",
            "::/0",
            "fe00::/7",
        ] {
            check(&policy(&[wide], &[], false), &[], &reserved);
        }
    }
}
