//! Ranges of IP addresses.

use std::net::IpAddr;
use std::str::FromStr;

/// A CIDR range such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

impl FromStr for IpNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is neither an address nor a network such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| bad())?,
            None => most,
        };
        if bits <= most {
            Ok(Self { address, bits })
        } else {
            Err(bad())
        }
    }
}

impl IpNetwork {
    /// Whether it is one address.
    pub(crate) fn is_single(&self) -> bool {
        self.bits == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether all its addresses are in another range.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits >= other.bits
            && other.holds(self.address)
    }

    /// Whether the range contains an address. An IPv4-mapped IPv6 address counts as IPv4.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let first = |bits: u128, width: u32| bits.checked_shr(width - self.bits).unwrap_or(0);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(asked)) => {
                first(own.to_bits().into(), 32) == first(asked.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(asked)) => {
                first(own.to_bits(), 128) == first(asked.to_bits(), 128)
            }
            _ => false,
        }
    }
}
