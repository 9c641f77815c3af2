//! Checks of Host and Origin, against hostile web pages.
//!
//! A page of any site can send requests to a server on the user's own machine. Two checks
//! prevent that. The Host must be a known name of the server, which defeats DNS rebinding:
//! a name that is pointed to loopback after the page was loaded. And a request that
//! changes something, opens a WebSocket or has a key in its address must not come from a
//! page of a foreign origin. Programs send no Origin, so neither check affects them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN, UPGRADE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::cors::Cors;
use super::forwarded::ForwardedClient;
use super::origin::{address, is_loopback, is_same};
use super::problem::Problem;

/// The known names of the server.
#[derive(Clone, Debug)]
pub enum KnownHosts {
    Any,
    /// These, loopback names and IP addresses.
    Only(Vec<String>),
}

/// The check of requests.
#[derive(Clone)]
pub(super) struct OriginCheck {
    pub(super) hosts: Arc<KnownHosts>,
    pub(super) cors: Arc<Cors>,
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

impl KnownHosts {
    /// These names, and always loopback and IP addresses; `*` is any name.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        if names.iter().any(|name| name == "*") {
            Self::Any
        } else {
            Self::Only(names)
        }
    }

    /// Every IP address is permitted: it cannot be rebound.
    fn allow(&self, host: &str) -> bool {
        let Self::Only(names) = self else {
            return true;
        };
        let host = host.trim_end_matches('.');
        address(host).is_some()
            || is_loopback(host)
            || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Rejects requests for other hosts, and those of foreign pages.
pub(super) async fn apply(
    State(shield): State<OriginCheck>,
    request: Request,
    next: Next,
) -> Response {
    match shield.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            let text = |name| request.headers().get(name).map(|own| format!("{own:?}"));
            let (host, origin) = (text(HOST), text(ORIGIN));
            tracing::debug!(
                event = "http.page_refused",
                host,
                origin,
                why = problem.message()
            );
            problem.into_response()
        }
    }
}

impl OriginCheck {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        let named = hosts(request)?;
        if let Some(other) = named.iter().find(|own| !self.hosts.allow(own.host())) {
            return Err(Problem::foreign(format!(
                "this server is not known as '{}'; add the name to http.hosts",
                other.host()
            )));
        }
        if is_sensitive(request) && self.is_foreign(request.headers(), &named) {
            Err(Problem::foreign(
                "a page of another origin may not do this; add its origin to http.cors_origins",
            ))
        } else {
            Ok(())
        }
    }

    /// Whether the request comes from a page of an origin that is neither same nor listed.
    fn is_foreign(&self, headers: &HeaderMap, named: &[Authority]) -> bool {
        let site = headers.get(FETCH_SITE);
        // Browsers set this header themselves; pages cannot.
        if site.is_some_and(|site| site == "same-origin" || site == "none") {
            return false;
        }
        match headers.get(ORIGIN) {
            Some(origin) => {
                let origin = origin.to_str().unwrap_or_default();
                !self.cors.allows(origin) && !named.iter().any(|own| is_same(origin, own))
            }
            None => site.is_some_and(|site| site == "cross-site"),
        }
    }
}

/// The hosts that a request names. A trusted proxy's header takes precedence.
fn hosts(request: &Request) -> Result<Vec<Authority>, Problem> {
    let client = request.extensions().get::<ForwardedClient>();
    let forwarded = client.and_then(|client| client.host.as_deref());
    let read = |text: &str| {
        let authority = text.parse::<Authority>();
        authority.map_err(|_| Problem::bad_request("the Host is not a host"))
    };
    if let Some(host) = forwarded {
        return Ok(vec![read(host)?]);
    }
    let mut named: Vec<_> = request.uri().authority().cloned().into_iter().collect();
    for value in request.headers().get_all(HOST) {
        let text = value.to_str().unwrap_or("?");
        // A client may leave the Host empty.
        if !text.is_empty() {
            named.push(read(text)?);
        }
    }
    Ok(named)
}

/// Whether a request does more than a read, which a browser hides from foreign pages.
fn is_sensitive(request: &Request) -> bool {
    let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let is_upgrade = request.headers().contains_key(UPGRADE);
    let mut query = request.uri().query().unwrap_or_default().split('&');
    let shows_key = query.any(|part| {
        let name = part.split('=').next().unwrap_or_default();
        name.eq_ignore_ascii_case("code")
    });
    // A navigation is a user's action, not a page's.
    let mode = request.headers().get(FETCH_MODE);
    let is_link = mode.is_some_and(|mode| mode == "navigate");
    !is_read || is_upgrade || (shows_key && !is_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_listed_names_are_ours() {
        let hosts = KnownHosts::new(["steadfast.internal".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST.",
            "account.blob.localhost",
            "127.9.0.1",
            "[::1]",
            "192.168.1.7",
            "Steadfast.Internal",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil-localhost",
            "",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
        assert!(KnownHosts::new(["*".to_owned()]).allow("evil.example"));
    }
}
