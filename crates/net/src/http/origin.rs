//! Hosts and the origins of pages.

use std::net::IpAddr;

use axum::http::uri::Authority;

/// Whether a name or address is loopback.
pub(super) fn is_loopback(host: &str) -> bool {
    match address(host) {
        Some(address) => address.to_canonical().is_loopback(),
        None => {
            let host = host.to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

/// The IP address of a host that is written as numbers.
pub(super) fn address(host: &str) -> Option<IpAddr> {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// The host of an origin and its port, such as those of `http://localhost:3000`.
pub(super) fn authority_of(origin: &str) -> Option<(Authority, u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let authority: Authority = rest.parse().ok()?;
    let usual = match scheme {
        "https" | "wss" => 443,
        _ => 80,
    };
    let port = authority.port_u16().unwrap_or(usual);
    Some((authority, port))
}

/// Whether an origin is the requested host. Behind a proxy the scheme may differ.
pub(super) fn is_same(origin: &str, own: &Authority) -> bool {
    let Some((authority, port)) = authority_of(origin) else {
        return false;
    };
    let is_port = match own.port_u16() {
        Some(own) => own == port,
        None => port == 80 || port == 443,
    };
    is_port && authority.host().eq_ignore_ascii_case(own.host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_ours_by_host_and_port() {
        let is_ours = |origin, own: &str| is_same(origin, &own.parse().unwrap());
        assert!(is_ours("http://localhost:7070", "LOCALHOST:7070"));
        assert!(is_ours("https://app.example", "app.example"));
        assert!(is_ours("http://app.example:80", "app.example"));
        assert!(!is_ours("http://localhost:3000", "localhost:7070"));
        assert!(!is_ours("http://localhost", "localhost:7070"));
        assert!(!is_ours("null", "localhost:7070"));
    }
}
