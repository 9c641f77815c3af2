//! Calls HTTP upstreams for serverless clients.

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Response, Url};
use steadfast_core::hex;
use steadfast_core::limits;
use steadfast_net::access::{AccessControl, Key, Right, ServiceArea};
use steadfast_net::egress::{ConnectOptions, Guard, root_cause};
use steadfast_realtime::{Upstream, UpstreamEvent, UpstreamResponse};
use steadfast_wire::signature;
use tokio::sync::Semaphore;

/// Routes events to a URL; the first matching rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamRule {
    /// A URL with the placeholders `{hub}`, `{category}` and `{event}`.
    pub url: String,
    /// `*`, a name, or comma-separated names.
    pub hub: String,
    pub category: String,
    pub event: String,
}

/// Calls the upstreams.
pub struct Upstreams {
    rules: Vec<UpstreamRule>,
    guard: Guard,
    client: Client,
    access: Arc<AccessControl>,
    calls: Semaphore,
}

/// The placeholders of a URL.
const PLACEHOLDERS: [&str; 3] = ["hub", "category", "event"];

/// Categories of events.
const CATEGORIES: [&str; 2] = ["connections", "messages"];

impl UpstreamRule {
    /// Validates the rule.
    pub fn check(&self) -> Result<(), String> {
        let url = &self.url;
        let mut parts = url.split('{');
        parts.next();
        for part in parts {
            let name = part.split_once('}').map(|(name, _)| name);
            let is_known = name.is_some_and(|name| PLACEHOLDERS.contains(&name));
            if !is_known {
                let name = name.unwrap_or(part);
                return Err(format!(
                    "'{url}': '{{{name}}}' is unknown; there are {{hub}}, {{category}} and {{event}}"
                ));
            }
        }
        let tried = Url::parse(&self.url(&UpstreamEvent::default()));
        let tried = tried.map_err(|error| format!("'{url}': {error}"))?;
        if !["http", "https"].contains(&tried.scheme()) {
            return Err(format!("'{url}' is not HTTP"));
        }
        for (what, pattern) in [
            ("hub", &self.hub),
            ("category", &self.category),
            ("event", &self.event),
        ] {
            if names(pattern).any(str::is_empty) {
                return Err(format!(
                    "'{url}': '{pattern}' is no {what}; write *, a name, or names with commas"
                ));
            }
        }
        let is_known =
            |name: &str| name == "*" || CATEGORIES.iter().any(|own| own.eq_ignore_ascii_case(name));
        match names(&self.category).find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "'{url}': the category '{name}' is unknown; there are connections and messages"
            )),
        }
    }

    fn fits(&self, hub: &str, category: &str, event: &str) -> bool {
        is_among(&self.hub, hub)
            && is_among(&self.category, category)
            && is_among(&self.event, event)
    }

    fn url(&self, event: &UpstreamEvent) -> String {
        let shown = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let url = self.url.replace("{hub}", &shown(&event.hub));
        let url = url.replace("{category}", event.category);
        url.replace("{event}", &shown(&event.name))
    }
}

fn is_among(pattern: &str, name: &str) -> bool {
    names(pattern).any(|own| own == "*" || own.eq_ignore_ascii_case(name))
}

fn names(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split(',').map(str::trim)
}

impl Upstreams {
    /// Fails if a rule, the trusted authorities or the proxy are invalid.
    pub fn new(
        rules: Vec<UpstreamRule>,
        options: ConnectOptions,
        access: Arc<AccessControl>,
    ) -> Result<Self, String> {
        for rule in &rules {
            rule.check()?;
        }
        let client = options.client()?.build();
        let client = client.map_err(|error| error.to_string())?;
        let mut guard = options.guard;
        guard.is_proxied |= options.proxy.is_some();
        Ok(Self {
            rules,
            guard,
            client,
            access,
            calls: Semaphore::new(limits::UPSTREAM_CALLS),
        })
    }

    async fn call(&self, event: UpstreamEvent) -> Result<UpstreamResponse, String> {
        let rule = |rule: &&UpstreamRule| rule.fits(&event.hub, event.category, &event.name);
        let rule = self.rules.iter().find(rule);
        let rule = rule.ok_or("no upstream rule matches the event")?;
        let url = Url::parse(&rule.url(&event)).map_err(|_| "the upstream has no valid address")?;
        let _permit = self.calls.acquire().await;
        let judged = self.guard.resolve(&url).await.map_err(|why| {
            tracing::warn!(event = "realtime.upstream_refused", hub = event.hub, why);
            "the upstream must not be called".to_owned()
        })?;
        let headers = self.headers(&event);
        let request = self.client.post(url).headers(headers).body(event.body);
        let request = request.timeout(limits::UPSTREAM_TIME);
        // URLs may hold secrets; errors must not.
        let response = judged.only(request.send()).await;
        let response = response.map_err(|error| root_cause(&error.without_url()))?;
        let status = response.status().as_u16();
        let body = read(response).await?;
        Ok(UpstreamResponse { status, body })
    }

    fn headers(&self, event: &UpstreamEvent) -> HeaderMap {
        let kind = if event.is_packed {
            "application/x-msgpack"
        } else {
            "application/json"
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let claims = event.claims.iter();
        let claims: Vec<_> = claims
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let texts = [
            ("x-asrs-connection-id", event.connection.as_str()),
            ("x-asrs-hub", &event.hub),
            ("x-asrs-category", event.category),
            ("x-asrs-event", &event.name),
            ("x-asrs-user-id", event.user.as_deref().unwrap_or_default()),
            ("x-asrs-user-claims", &claims.join(", ")),
            ("x-asrs-client-query", event.query.trim_start_matches('?')),
            ("x-asrs-signature", &self.signature(event)),
        ];
        for (name, text) in texts {
            // Bytes, because client texts need not be ASCII.
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes())
                && !text.is_empty()
            {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        headers
    }

    /// The connection's id, signed with every secret of keys that manage its hub.
    fn signature(&self, event: &UpstreamEvent) -> String {
        let ring = self.access.ring();
        let keys = ring.keys();
        let keys = keys.filter(|key| manages(key, &event.hub));
        let secrets = keys.flat_map(|key| key.secrets());
        let signed = secrets.map(|secret| {
            let mac = signature::sign(secret.as_bytes(), &event.connection);
            format!("sha256={}", hex::encode_upper(&mac))
        });
        signed.collect::<Vec<_>>().join(",")
    }
}

fn manages(key: &Key, hub: &str) -> bool {
    let mut grants = key.grants.iter();
    grants.any(|grant| grant.holds(Right::Manage, ServiceArea::Realtime, Some(hub)))
}

impl Upstream for Upstreams {
    fn wants(&self, hub: &str, category: &str, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.fits(hub, category, name))
    }

    fn tell(&self, event: UpstreamEvent) -> BoxFuture<'_, Result<UpstreamResponse, String>> {
        Box::pin(self.call(event))
    }
}

/// Reads a response up to just over the limit, so that the caller notices the excess.
async fn read(response: Response) -> Result<Bytes, String> {
    let mut bytes = BytesMut::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| root_cause(&error.without_url()))?);
        if bytes.len() > limits::CLIENT_MESSAGE_BYTES {
            break;
        }
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::SystemClock;

    use super::*;
    use steadfast_net::access::{KeyRing, Secret};

    #[test]
    fn patterns_are_stars_names_or_lists() {
        for (pattern, name, fits) in [
            ("*", "anything", true),
            ("chat", "Chat", true),
            ("a, b", "b", true),
            ("a,b", "c", false),
            ("", "a", false),
        ] {
            assert_eq!(is_among(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn rules_that_no_event_fits_are_refused() {
        let rule = |url: &str, category: &str| UpstreamRule {
            url: url.to_owned(),
            hub: "*".to_owned(),
            category: category.to_owned(),
            event: "*".to_owned(),
        };
        for (url, category) in [
            ("http://h/{hub}/{category}/{event}?code=1", "*"),
            ("https://h", "connections"),
            ("https://h", "messages, Connections"),
        ] {
            assert_eq!(rule(url, category).check(), Ok(()));
        }
        for (url, category, why) in [
            ("http://h/{user}", "*", "'{user}' is unknown"),
            ("http://h/{Hub}", "*", "'{Hub}' is unknown"),
            ("http://h/{hub", "*", "'{hub}' is unknown"),
            ("http://h/{hub}", "message", "category 'message' is unknown"),
            ("http://h", "messages,", "is no category"),
            ("ftp://h/{hub}", "*", "is not HTTP"),
            ("nowhere", "*", "relative URL"),
        ] {
            let said = rule(url, category).check().expect_err(url);
            assert!(said.contains(why), "{said}");
        }
    }

    #[tokio::test]
    async fn an_upstream_at_a_closed_address_is_not_called() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let rule = UpstreamRule {
                url: format!("http://{host}:{port}/"),
                hub: "*".to_owned(),
                category: "*".to_owned(),
                event: "*".to_owned(),
            };
            let access = AccessControl::new(KeyRing::new(), Arc::new(SystemClock::new()));
            let options = ConnectOptions::default();
            let upstreams = Upstreams::new(vec![rule], options, Arc::new(access)).unwrap();
            let why = upstreams.call(UpstreamEvent::default()).await.err();
            assert_eq!(why.as_deref(), Some("the upstream must not be called"));
        }
        listener.into_std().unwrap().accept().unwrap_err();
    }

    #[test]
    fn calls_are_signed_with_keys_that_manage_their_hub_only() {
        let keys = [
            ("all", "manage *"),
            ("own", "manage realtime/Chat"),
            ("other", "manage realtime/chat2"),
            ("sender", "send realtime/chat"),
            ("jobs", "manage jobs"),
        ];
        let mut ring = KeyRing::new();
        for (name, grant) in keys {
            ring.add(Key {
                name: name.to_owned(),
                grants: vec![grant.parse().unwrap()],
                primary: Secret::new(name),
                secondary: None,
            });
        }
        let access = AccessControl::new(ring, Arc::new(SystemClock::new()));
        let options = ConnectOptions::default();
        let upstreams = Upstreams::new(Vec::new(), options, Arc::new(access)).unwrap();
        let event = UpstreamEvent {
            hub: "chat".to_owned(),
            connection: "c".into(),
            ..UpstreamEvent::default()
        };
        let signed = upstreams.signature(&event);
        for (name, _) in keys {
            let mac = hex::encode_upper(&signature::sign(name.as_bytes(), "c"));
            let is_signed = signed.split(',').any(|own| own == format!("sha256={mac}"));
            assert_eq!(is_signed, ["all", "own"].contains(&name), "{name}");
        }
    }

    #[test]
    fn an_address_takes_what_it_asks_for() {
        let rule = UpstreamRule {
            url: "http://h/{hub}/{category}/{event}?code=1".to_owned(),
            ..UpstreamRule::default()
        };
        let event = UpstreamEvent {
            hub: "chat".to_owned(),
            category: "messages",
            name: "a/b".to_owned(),
            ..UpstreamEvent::default()
        };
        assert_eq!(rule.url(&event), "http://h/chat/messages/a%2Fb?code=1");
    }
}
