//! The page at `/`, for people with a browser.
//!
//! It needs no key, so it reveals nothing: in `serve` it shows no key, and no address but
//! the one of the request. In development the keys are well-known, and it shows every
//! connection string. It loads and runs nothing, and everything it shows is escaped.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use super::forwarded::ForwardedClient;
use crate::connection_string::ConnectionString;

/// The content of the page.
pub struct LandingPage {
    /// The ports of the server: name and address.
    pub addresses: Vec<(String, String)>,
    /// Connection strings, in development only.
    pub strings: Option<Vec<ConnectionString>>,
}

/// The page of a server.
pub struct Landing {
    scheme: &'static str,
    /// Evaluated for each request: ports open one after the other.
    page: Box<dyn Fn() -> LandingPage + Send + Sync>,
    policy: String,
}

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h2{margin-top:2rem;font-size:1.1rem}\
th{text-align:left;vertical-align:top;font-weight:normal;padding:.2rem 1.5rem .2rem 0;\
white-space:nowrap}\
td{padding:.2rem 0}\
code{font:14px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}";

/// The services of a port.
const SPOKEN: [(&str, &str); 6] = [
    (
        "http",
        "REST, jobs, events by HTTP and WebSocket, health, metrics",
    ),
    ("amqp", "event hubs"),
    ("amqps", "event hubs, with TLS"),
    ("durable", "orchestrations and entities, by gRPC"),
    ("blob", "blobs and checkpoints"),
    ("realtime", "hubs for SignalR clients and app servers"),
];

/// A first command per capability, for a development server.
const COMMANDS: [(&str, &str); 7] = [
    ("the server", "steadfast status"),
    ("event hubs", "steadfast eventhub create houses"),
    ("durable", "steadfast workflow list"),
    ("jobs", "steadfast job preview --every 2hours --top 5"),
    ("blobs", "steadfast blob list"),
    ("real-time", "steadfast hub token chat --user alice"),
    ("collections", "steadfast store inspect"),
];

impl Landing {
    /// The page of a server whose HTTP port has this scheme.
    pub fn new(
        scheme: &'static str,
        page: impl Fn() -> LandingPage + Send + Sync + 'static,
    ) -> Self {
        let style = digest::digest(&digest::SHA256, STYLE.as_bytes());
        let style = STANDARD.encode(style);
        Self {
            scheme,
            page: Box::new(page),
            policy: format!(
                "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'"
            ),
        }
    }

    /// `/`, which needs no key.
    pub fn routes(self) -> Router {
        let own = Arc::new(self);
        let page = async move |uri: Uri,
                               headers: HeaderMap,
                               client: Option<Extension<ForwardedClient>>| {
            let client = client.map(|Extension(client)| client);
            let reached = reached(own.scheme, &uri, &headers, client.as_ref());
            own.answer(&reached)
        };
        Router::new().route("/", get(page))
    }

    fn answer(&self, reached: &str) -> Response {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, &self.policy),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
        ];
        (headers, (self.page)().html(reached)).into_response()
    }
}

impl LandingPage {
    /// The page for a client that reached the server by this address.
    fn html(&self, reached: &str) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>Steadfast</title>\n<style>{STYLE}</style>\n\
             <h1>Steadfast {version}</h1>\n\
             <p>Durable state, event streams and messaging in one server.</p>\n"
        );
        let (ports, strings) = match &self.strings {
            Some(strings) => (self.ports(true), development(reached, strings)),
            None => (self.ports(false), production(reached)),
        };
        html += &table("Ports", ports.iter());
        html += &strings;
        html += "<p>Every operation of the REST interface: \
                 <a href=\"/openapi.json\">/openapi.json</a>. Health: \
                 <a href=\"/readyz\">/readyz</a>, <a href=\"/healthz\">/healthz</a>.</p>\n\
                 </html>\n";
        html
    }

    /// The services, and if `is_shown`, their addresses.
    fn ports(&self, is_shown: bool) -> Vec<(String, String)> {
        let rows = self.addresses.iter().map(|(name, url)| {
            let known = SPOKEN.iter().find(|(known, _)| known == name);
            let spoken = escaped(known.map_or("", |(_, spoken)| spoken));
            let spoken = if is_shown {
                format!("<code>{}</code><br>{spoken}", escaped(url))
            } else {
                spoken
            };
            (escaped(name), spoken)
        });
        rows.collect()
    }
}

fn development(reached: &str, strings: &[ConnectionString]) -> String {
    let strings = strings.iter().map(|(name, text)| (*name, code(text)));
    let strings: Vec<_> = strings.collect();
    let url = format!("export STEADFAST_URL={reached}");
    let first = [("where", code(&url))];
    let commands = COMMANDS.map(|(name, command)| (name, code(command)));
    let title = "Connection strings, for development only: everybody knows these keys";
    table(title, strings.iter()) + &table("First commands", first.iter().chain(&commands))
}

fn production(reached: &str) -> String {
    let commands = [
        (
            "once",
            code(&format!(
                "steadfast context add mine --url {reached} --key-file -"
            )),
        ),
        ("then", code("steadfast context show mine --strings")),
    ];
    table(
        "Connection strings, with a key of this server",
        commands.iter(),
    )
}

/// A table of names and of HTML.
fn table<'a, N: AsRef<str> + 'a>(
    title: &str,
    rows: impl Iterator<Item = &'a (N, String)>,
) -> String {
    let mut html = format!("<h2>{}</h2>\n<table>\n", escaped(title));
    for (name, cell) in rows {
        let name = escaped(name.as_ref());
        let _ = writeln!(html, "<tr><th>{name}</th><td>{cell}</td></tr>");
    }
    html + "</table>\n"
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escaped(text))
}

/// The address by which a client reached the server. Anything but a plain host is not
/// repeated.
fn reached(
    scheme: &str,
    uri: &Uri,
    headers: &HeaderMap,
    client: Option<&ForwardedClient>,
) -> String {
    let forwarded = client.and_then(|client| client.scheme.as_deref());
    let scheme = match forwarded {
        Some("http") => "http",
        Some("https") => "https",
        _ => scheme,
    };
    let forwarded = client.and_then(|client| client.host.as_deref());
    let authority = || uri.authority().map(|authority| authority.as_str());
    let header = || headers.get(HOST)?.to_str().ok();
    let host = forwarded.or_else(authority).or_else(header);
    let is_host = |host: &&str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        (1..=HOST_LETTERS).contains(&host.len()) && host.chars().all(is_letter)
    };
    let host = host.filter(is_host).unwrap_or("HOST:PORT");
    format!("{scheme}://{host}")
}

/// Length of a DNS name with a port.
const HOST_LETTERS: usize = 260;

/// A text as HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(strings: Option<Vec<ConnectionString>>) -> String {
        let addresses = [
            ("http", "http://10.1.2.3:7070"),
            ("amqps", "amqps://10.1.2.3:5671"),
        ];
        let addresses = addresses.map(|(name, url)| (name.to_owned(), url.to_owned()));
        let addresses = addresses.to_vec();
        LandingPage { addresses, strings }.html("https://hub.example")
    }

    #[test]
    fn a_stranger_sees_no_address_but_the_one_that_was_asked_for() {
        let html = page(None);
        assert!(
            !html.contains("10.1.2.3") && !html.contains("567"),
            "{html}"
        );
        assert!(html.contains("event hubs, with TLS"), "{html}");
        assert!(html.contains("context add mine --url https://hub.example --key-file -"));
        assert!(html.contains("steadfast context show mine --strings"));
    }

    #[test]
    fn what_a_page_shows_is_escaped() {
        let html = page(Some(vec![("rest", "<script>&'\"".to_owned())]));
        assert!(
            html.contains("<code>&lt;script&gt;&amp;&#39;&quot;</code>"),
            "{html}"
        );
        assert!(
            html.contains("<code>amqps://10.1.2.3:5671</code>"),
            "{html}"
        );
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn a_page_repeats_plain_hosts_only() {
        let reached = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            reached("https", &Uri::from_static("/"), &headers, None)
        };
        assert_eq!(reached("[::1]:7070"), "https://[::1]:7070");
        assert_eq!(reached("hub.example"), "https://hub.example");
        for other in ["", "a$(b)", "a;b", "<b>", "a@b", &"a".repeat(300)] {
            assert_eq!(reached(other), "https://HOST:PORT", "{other}");
        }
        let client = ForwardedClient {
            address: [10, 0, 0, 1].into(),
            scheme: Some("https".to_owned()),
            host: Some("proxy.example".to_owned()),
        };
        let uri = Uri::from_static("http://inner:1/");
        let by_proxy = super::reached("http", &uri, &HeaderMap::new(), Some(&client));
        assert_eq!(by_proxy, "https://proxy.example");
        let by_http_2 = super::reached("http", &uri, &HeaderMap::new(), None);
        assert_eq!(by_http_2, "http://inner:1");
    }
}
