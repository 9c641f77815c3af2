//! Tokens of app servers, and the audiences of tokens.

use std::time::Duration;

use axum::http::Uri;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_net::http::ForwardedClient;
use steadfast_wire::jwt;

/// A token for a link of an app server, signed with the secret of a key.
pub fn server_token(hub: &str, server: &str, host: &str, secret: &str, now: Timestamp) -> String {
    let ends = now.plus(SERVER_LIFETIME).0 / 1000;
    let audience = format!("http://{host}/server/?hub={}", hub.to_ascii_lowercase());
    let claims = json!({"aud": audience, "exp": ends, "nameid": server});
    match claims {
        Value::Object(claims) => jwt::token(&claims, secret),
        _ => String::new(),
    }
}

/// The lifetime of a server's token, which is issued per link.
const SERVER_LIFETIME: Duration = Duration::from_secs(3600);

/// The host of a request: from a trusted proxy, else from the Host header, else from the
/// HTTP/2 authority. Without a host no audience matches.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    let forwarded = parts.extensions.get::<ForwardedClient>();
    let forwarded = forwarded.and_then(|own| own.host.as_deref());
    let header = || parts.headers.get(HOST)?.to_str().ok();
    let authority = || parts.uri.authority().map(Authority::as_str);
    forwarded.or_else(header).or_else(authority)
}

/// Whether an audience names the app servers of this hub.
pub(super) fn is_for_server(audience: &str, hub: &str, host: Option<&str>) -> bool {
    let Ok(uri) = audience.parse::<Uri>() else {
        return false;
    };
    let named = uri.host().unwrap_or_default();
    let is_host = host.is_some_and(|host| is_same_host(named, without_port(host)));
    let query = super::query::QueryString::read(uri.query());
    let is_hub = query
        .get("hub")
        .is_some_and(|own| own.eq_ignore_ascii_case(hub));
    is_host && is_hub && uri.path().trim_end_matches('/') == "/server"
}

/// Whether an audience is this URL, ignoring the port.
pub(super) fn is_for_path(audience: &str, path: &str, host: Option<&str>) -> bool {
    let Ok(uri) = audience.parse::<Uri>() else {
        return false;
    };
    let named = uri.host().unwrap_or_default();
    let is_host = host.is_some_and(|host| is_same_host(named, without_port(host)));
    is_host && uri.path().trim_end_matches('/') == path.trim_end_matches('/')
}

/// Whether an audience names this hub: by `/client/?hub=`, or by its own path. Ports are
/// ignored; hosts must match, but all names of this machine are equal.
pub(super) fn is_for(audience: &str, hub: &str, path: &str, host: Option<&str>) -> bool {
    let Ok(uri) = audience.parse::<Uri>() else {
        return false;
    };
    let named = uri.host().unwrap_or_default();
    let is_host = host.is_some_and(|host| is_same_host(named, without_port(host)));
    let own = uri.path().trim_end_matches('/');
    let is_hub = match own {
        "/client" => super::query::QueryString::read(uri.query())
            .get("hub")
            .is_some_and(|own| own.eq_ignore_ascii_case(hub)),
        own => own == path.trim_end_matches('/').trim_end_matches("/negotiate"),
    };
    is_host && is_hub
}

fn is_same_host(one: &str, other: &str) -> bool {
    let is_here = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "::1");
    one.eq_ignore_ascii_case(other) || is_here(one) && is_here(other)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// All claims as strings; one with several values appears several times.
pub(super) fn texts(claims: &Map<String, Value>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (name, value) in claims {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            texts.push((name.clone(), text));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn realtime_30_an_audience_counts_without_its_port() {
        let good = [
            "http://localhost/client/?hub=chat",
            "https://127.0.0.1:1/client?hub=Chat",
            "http://localhost/client/?x=1&hub=chat",
            "http://localhost/chat",
        ];
        for audience in good {
            let host = Some("localhost:8888");
            assert!(
                is_for(audience, "chat", "/chat/negotiate", host),
                "{audience}"
            );
        }
        let bad = [
            "",
            "chat",
            "http://localhost/client/?hub=other",
            "http://elsewhere/client/?hub=chat",
            "http://localhost/server/?hub=chat",
        ];
        for audience in bad {
            assert!(
                !is_for(audience, "chat", "/x", Some("localhost")),
                "{audience}"
            );
        }
    }

    #[test]
    fn an_app_server_has_the_audience_of_its_hub_and_no_client_s() {
        let is_ours = |audience| is_for_server(audience, "chat", Some("localhost:8888"));
        assert!(is_ours("http://localhost/server/?hub=chat"));
        assert!(is_ours("https://127.0.0.1:1/server?hub=Chat"));
        for audience in [
            "",
            "http://localhost/server/",
            "http://localhost/server/?hub=other",
            "http://localhost/client/?hub=chat",
            "http://localhost/?hub=chat",
            "http://elsewhere/server/?hub=chat",
        ] {
            assert!(!is_ours(audience), "{audience}");
        }
    }

    #[test]
    fn the_host_is_found_in_every_version_of_http_and_needed() {
        let parts = |uri: &str, host: Option<&str>| {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            request.body(()).unwrap().into_parts().0
        };
        let first = parts("/client/?hub=chat", Some("a.example:80"));
        assert_eq!(host(&first), Some("a.example:80"));
        let mut second = parts("https://b.example/client/?hub=chat", None);
        assert_eq!(host(&second), Some("b.example"));
        let audience = "https://elsewhere.example/client/?hub=chat";
        assert!(!is_for(audience, "chat", "/x", host(&second)));
        second.extensions.insert(ForwardedClient {
            address: [127, 0, 0, 1].into(),
            scheme: None,
            host: Some("elsewhere.example".to_owned()),
        });
        assert!(is_for(audience, "chat", "/x", host(&second)));
        let none = parts("/client/?hub=chat", None);
        assert_eq!(host(&none), None);
        assert!(!is_for(audience, "chat", "/x", None));
        assert!(!is_for_path("http://a/api", "/api", None));
        assert!(!is_for_server("http://a/server/?hub=chat", "chat", None));
    }
}
