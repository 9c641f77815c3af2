//! Kinds of networks: public, private, reserved.
//!
//! An IPv6 address that embeds an IPv4 address leads to the IPv4 address, so it is
//! classified as that one. Where the position of the embedded address is not certain, all
//! candidates count.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::network::IpNetwork;

/// The kind of network of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NetworkKind {
    /// On the internet.
    Public,
    /// On this machine or in a private network.
    Private,
    /// A metadata service, a link-local address, a group, or no host at all.
    Reserved,
}

/// Metadata services of clouds: the usual address, Amazon (containers, pods), Azure,
/// Alibaba, Oracle.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same for IPv6: Amazon (instances, pods), Google.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Networks that are reserved as a whole: no host, link-local, groups.
const RESERVED: [&str; 6] = [
    "0.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/3",
    "::/128",
    "fe80::/10",
    "ff00::/8",
];

/// Whether all addresses of a network are reserved.
pub(super) fn is_reserved(network: &IpNetwork) -> bool {
    let mut reserved = RESERVED.iter().filter_map(|text| text.parse().ok());
    reserved.any(|reserved| network.is_within(&reserved))
}

/// Whether a packet to an address may end at a metadata service.
pub(super) fn is_metadata(address: IpAddr) -> bool {
    meanings(address).iter().any(|meaning| match meaning {
        IpAddr::V4(v4) => METADATA_V4.contains(v4),
        IpAddr::V6(v6) => METADATA_V6.contains(v6),
    })
}

/// The kind of network of an address: the strictest of all its meanings.
pub(super) fn network_kind(address: IpAddr) -> NetworkKind {
    let reaches = meanings(address).into_iter().map(|meaning| match meaning {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    });
    reaches.max().unwrap_or(NetworkKind::Reserved)
}

fn reach_v4(address: Ipv4Addr) -> NetworkKind {
    let [a, b, ..] = address.octets();
    let is_reserved =
        a == 0 || a >= 224 || address.is_link_local() || METADATA_V4.contains(&address);
    let is_shared = a == 100 && b & 0xc0 == 64;
    let is_benchmark = a == 198 && b & 0xfe == 18;
    let is_private = address.is_loopback() || address.is_private() || is_shared || is_benchmark;
    match (is_reserved, is_private) {
        (true, _) => NetworkKind::Reserved,
        (false, true) => NetworkKind::Private,
        (false, false) => NetworkKind::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> NetworkKind {
    let is_site_local = address.segments()[0] & 0xffc0 == 0xfec0;
    let is_reserved = address.is_unspecified()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || METADATA_V6.contains(&address);
    let is_private = address.is_loopback() || address.is_unique_local() || is_site_local;
    match (is_reserved, is_private) {
        (true, _) => NetworkKind::Reserved,
        (false, true) => NetworkKind::Private,
        (false, false) => NetworkKind::Public,
    }
}

/// The addresses at which a packet may end.
pub(super) fn meanings(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = address else {
        return vec![address];
    };
    let octets = v6.octets();
    let inner = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| octets[place]));
    let last = inner([12, 13, 14, 15]);
    let found = match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return vec![address],
        // Mapped, and the older compatible form.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] => vec![last],
        // Translated (SIIT).
        [0, 0, 0, 0, 0xffff, 0, ..] => vec![last],
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![last],
        // A network's own translation: the prefix length is not known here. Bytes beside the
        // embedded address are zero, so zeros are no candidate.
        [0x64, 0xff9b, 1, ..] => {
            let forms = [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]];
            let mut forms: Vec<_> = forms.into_iter().map(inner).collect();
            forms.push(last);
            forms.retain(|form| form.octets()[0] != 0);
            forms
        }
        // 6to4.
        [0x2002, ..] => vec![inner([2, 3, 4, 5])],
        // Teredo: its server, and the client with all bits turned over.
        [0x2001, 0, ..] => vec![inner([4, 5, 6, 7]), Ipv4Addr::from_bits(!last.to_bits())],
        _ => return vec![address],
    };
    found.into_iter().map(IpAddr::V4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_has_the_reach_of_where_it_ends() {
        use NetworkKind::{Private, Public, Reserved};
        for (text, expected) in [
            ("8.8.8.8", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("172.32.0.1", Public),
            ("198.20.0.1", Public),
            ("223.255.255.255", Public),
            ("127.0.0.1", Private),
            ("127.255.255.254", Private),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("198.18.0.1", Private),
            ("0.0.0.0", Reserved),
            ("0.1.2.3", Reserved),
            ("169.254.169.254", Reserved),
            ("168.63.129.16", Reserved),
            ("100.100.100.200", Reserved),
            ("192.0.0.192", Reserved),
            ("224.0.0.1", Reserved),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Reserved),
            ("2606:4700::1111", Public),
            ("::1", Private),
            ("fc00::1", Private),
            ("fd12:3456::1", Private),
            ("fec0::1", Private),
            ("::", Reserved),
            ("fe80::1", Reserved),
            ("febf::1", Reserved),
            ("ff02::1", Reserved),
            ("fd00:ec2::254", Reserved),
            ("fd00:ec2::23", Reserved),
            ("fd20:ce::254", Reserved),
            ("::ffff:8.8.8.8", Public),
            ("::ffff:127.0.0.1", Private),
            ("::ffff:169.254.169.254", Reserved),
            ("::ffff:0:169.254.169.254", Reserved),
            ("::127.0.0.1", Private),
            ("64:ff9b::8.8.8.8", Public),
            ("64:ff9b::10.0.0.1", Private),
            ("64:ff9b::169.254.169.254", Reserved),
            ("64:ff9b:1::8.8.8.8", Public),
            ("64:ff9b:1::169.254.169.254", Reserved),
            ("64:ff9b:1:a9fe:a9:fe00::", Reserved),
            ("64:ff9b:1:a:0:100::", Private),
            ("64:ff9b:1::", Reserved),
            ("2002:808:808::1", Public),
            ("2002:7f00:1::1", Private),
            ("2002:a9fe:a9fe::1", Reserved),
            // Teredo: the server 8.8.8.8, the client 9.9.9.9, 127.0.0.1, 169.254.169.254.
            ("2001:0:808:808::f6f6:f6f6", Public),
            ("2001:0:808:808::80ff:fffe", Private),
            ("2001:0:808:808::5601:5601", Reserved),
            ("2001:0:a9fe:a9fe::f6f6:f6f6", Reserved),
        ] {
            assert_eq!(network_kind(text.parse().unwrap()), expected, "{text}");
        }
    }
}
