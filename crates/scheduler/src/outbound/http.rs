//! One outbound HTTP request, with rules for redirects.
//!
//! Success is 2xx. 301, 302 and 303 are followed for GET and HEAD, 307 and 308 for any
//! method, five at most; never from https to http. Each is checked like a request of its
//! own. Only headers that carry no secret are sent to another origin.

use futures_util::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, Response, StatusCode, Url};
use steadfast_jobs::Outcome;
use steadfast_net::egress::{AllowedHost, root_cause};
use steadfast_net::http::propagate;
use tracing::Instrument;

use super::attempt_ids;
use super::client_pool::Options;

const REDIRECTS: usize = 5;

/// Headers of a job that follow a redirect to another origin; any other one may be a
/// credential.
const CROSSING: [&str; 5] = [
    "accept",
    "accept-language",
    "content-language",
    "content-type",
    "user-agent",
];

/// How much of a response is kept, and how much is read.
const KEPT_BYTES: usize = 2048;
const READ_BYTES: usize = 1024 * 1024;

/// A request that is ready to go.
#[derive(Clone)]
pub(crate) struct OutboundCall {
    /// Its name in history items.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The tenure in which it began; it is not sent in another one.
    pub(crate) tenure: u64,
}

/// The result of a call.
pub(crate) struct CallResult {
    pub(crate) status: Option<StatusCode>,
    pub(crate) outcome: Outcome,
}

impl OutboundCall {
    /// Executes the call. `plain` is used after a redirect to another origin.
    pub(crate) async fn make(
        mut self,
        options: &Options,
        client: &Client,
        plain: &Client,
    ) -> CallResult {
        let mut client = client;
        for _ in 0..=REDIRECTS {
            let judged = match options.connect.guard.resolve(&self.url).await {
                Ok(judged) => judged,
                Err(why) => return self.failed(why),
            };
            // The last check before the first byte.
            if let Err(why) = options.check(self.tenure) {
                return self.failed(why);
            }
            let response = match self.send(client, judged).await {
                Ok(response) => response,
                Err(why) => return self.failed(why),
            };
            let next = match self.redirect(&response) {
                Ok(Some(next)) => next,
                Ok(None) => return self.answered(response).await,
                Err(why) => return self.failed(why),
            };
            if next.origin() != self.url.origin() {
                self.headers = crossing(&self.headers);
                client = plain;
            }
            self.url = next;
        }
        self.failed(format!("there were more than {REDIRECTS} redirects"))
    }

    async fn send(&self, client: &Client, judged: AllowedHost) -> Result<Response, String> {
        let span = tracing::info_span!(
            "attempt",
            otel.name = %self.method,
            otel.kind = "client",
            http.request.method = %self.method,
            server.address = self.url.host_str().unwrap_or_default(),
        );
        let mut headers = self.headers.clone();
        // The target can correlate the request with this attempt.
        span.in_scope(|| propagate(&mut headers));
        let request = client.request(self.method.clone(), self.url.clone());
        let mut request = request
            .build()
            .map_err(|error| root_cause(&error.without_url()))?;
        // Credentials in the URL, if it has any.
        if let Some(credentials) = request.headers_mut().remove(AUTHORIZATION) {
            headers.entry(AUTHORIZATION).or_insert(credentials);
        }
        *request.headers_mut() = headers;
        if !self.body.is_empty()
            || [Method::POST, Method::PUT, Method::PATCH].contains(&self.method)
        {
            *request.body_mut() = Some(self.body.clone().into());
        }
        // URLs may hold secrets; errors must not.
        judged
            .only(client.execute(request))
            .instrument(span)
            .await
            .map_err(|error| root_cause(&error.without_url()))
    }

    /// The target of a redirect, if the response is one.
    fn redirect(&self, response: &Response) -> Result<Option<Url>, String> {
        let status = response.status();
        let is_safe = [Method::GET, Method::HEAD].contains(&self.method);
        let is_followed = match status.as_u16() {
            301..=303 => is_safe,
            307 | 308 => true,
            _ => false,
        };
        let Some(place) = response.headers().get(LOCATION).filter(|_| is_followed) else {
            return Ok(None);
        };
        let place = place
            .to_str()
            .ok()
            .and_then(|place| self.url.join(place).ok());
        let place = place.ok_or("the redirect leads nowhere")?;
        if self.url.scheme() == "https" && place.scheme() != "https" {
            return Err("the redirect leads from https to http".into());
        }
        if !["http", "https"].contains(&place.scheme()) {
            return Err("the redirect leads to something that is not HTTP".into());
        }
        Ok(Some(place))
    }

    async fn answered(self, response: Response) -> CallResult {
        let status = response.status();
        let headers = show_headers(response.headers());
        let body = match read(response).await {
            Ok(body) => body,
            Err(why) => return self.failed(why),
        };
        let reason = status.canonical_reason().unwrap_or("Unknown");
        let (name, host) = (self.name, self.url.host_str().unwrap_or_default());
        let message = format!(
            "{name} Action - Response from host '{host}': '{reason}' Response Headers: {headers} Body: {body}"
        );
        CallResult {
            status: Some(status),
            outcome: Outcome {
                is_success: status.is_success(),
                message,
            },
        }
    }

    fn failed(&self, why: impl AsRef<str>) -> CallResult {
        let (name, host) = (self.name, self.url.host_str().unwrap_or_default());
        let message = format!(
            "{name} Action - Request to host '{host}' failed: {}",
            why.as_ref()
        );
        CallResult {
            status: None,
            outcome: Outcome {
                is_success: false,
                message,
            },
        }
    }
}

/// The headers that may be sent to another origin.
fn crossing(headers: &HeaderMap) -> HeaderMap {
    let may_cross = |name: &HeaderName| {
        CROSSING.contains(&name.as_str()) || attempt_ids::is_attempt_header(name)
    };
    let kept = headers.iter().filter(|(name, _)| may_cross(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Reads a response to its end, and keeps its beginning.
async fn read(response: Response) -> Result<String, String> {
    let (mut kept, mut total) = (Vec::new(), 0);
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| root_cause(&error.without_url()))?;
        total += chunk.len();
        let room = KEPT_BYTES - kept.len();
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if total > READ_BYTES {
            break;
        }
    }
    let mut text = String::from_utf8_lossy(&kept).into_owned();
    while text.len() > KEPT_BYTES {
        // An invalid byte becomes three.
        text.pop();
    }
    Ok(text)
}

/// Reads a response to its end; fails if it is longer than `most`.
pub(crate) async fn read_bounded(response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| root_cause(&error.without_url()))?);
        if bytes.len() > most {
            return Err(format!("the answer is longer than {most} bytes"));
        }
    }
    Ok(bytes)
}

fn show_headers(headers: &HeaderMap) -> String {
    let show = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = if name == SET_COOKIE {
            "(redacted)"
        } else {
            value.to_str().unwrap_or("(not text)")
        };
        format!("{name}: {value}")
    };
    let shown: Vec<_> = headers.iter().take(64).map(show).collect();
    let mut shown = shown.join("; ");
    while shown.len() > 2 * KEPT_BYTES {
        shown.pop();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_credential_does_not_cross_origins() {
        let mut headers = HeaderMap::new();
        for name in [
            "accept",
            "content-type",
            "idempotency-key",
            "x-ms-execution-tag",
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
            "x-functions-key",
            "ocp-apim-subscription-key",
            "x-anything",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
        }
        let kept = crossing(&headers);
        let mut kept: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        let expected = [
            "accept",
            "content-type",
            "idempotency-key",
            "x-ms-execution-tag",
        ];
        assert_eq!(kept, expected);
    }
}
