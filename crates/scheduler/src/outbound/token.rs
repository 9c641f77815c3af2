//! OAuth tokens for jobs that call as an application.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::Value;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_net::egress::root_cause;

use super::client_pool::Options;
use super::http::read_bounded;
use crate::encode;

/// Maximum number of cached tokens.
const TOKENS: usize = 1024;
/// A token is not used this long before its expiry.
const MARGIN: Duration = Duration::from_secs(60);

/// The client and the resource of a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OauthTokenRequest {
    pub(crate) tenant: String,
    pub(crate) audience: String,
    pub(crate) client: String,
    pub(crate) secret: String,
}

/// Requests tokens and caches them until they expire.
pub(crate) struct TokenCache {
    options: Arc<Options>,
    clock: Arc<dyn Clock>,
    kept: Mutex<HashMap<OauthTokenRequest, (String, Duration)>>,
}

impl TokenCache {
    pub(crate) fn new(options: Arc<Options>, clock: Arc<dyn Clock>) -> Self {
        Self {
            options,
            clock,
            kept: Mutex::default(),
        }
    }

    /// A token, cached or new.
    pub(crate) async fn get(
        &self,
        client: &Client,
        applicant: &OauthTokenRequest,
    ) -> Result<String, String> {
        let now = self.clock.monotonic();
        let kept = self.kept.lock().get(applicant).cloned();
        if let Some((token, _)) = kept.filter(|(_, until)| *until > now) {
            return Ok(token);
        }
        let (token, lasts) = self.ask(client, applicant).await?;
        let mut kept = self.kept.lock();
        if kept.len() >= TOKENS {
            kept.clear();
        }
        kept.insert(applicant.clone(), (token.clone(), end(now, lasts)));
        Ok(token)
    }

    /// Removes a token that was rejected.
    pub(crate) fn forget(&self, applicant: &OauthTokenRequest) {
        self.kept.lock().remove(applicant);
    }

    async fn ask(
        &self,
        client: &Client,
        applicant: &OauthTokenRequest,
    ) -> Result<(String, Duration), String> {
        let authority = self.options.authority.trim_end_matches('/');
        let url = format!("{authority}/{}/oauth2/token", encode(&applicant.tenant));
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &applicant.client),
            ("client_secret", &applicant.secret),
            ("resource", &applicant.audience),
        ];
        let form = form
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .join("&");
        let url = Url::parse(&url).map_err(|_| "no token: the authority has no valid address")?;
        let judged = self.options.connect.guard.resolve(&url).await;
        let judged = judged.map_err(|why| format!("no token: {why}"))?;
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        let response = judged.only(request.send()).await;
        let response =
            response.map_err(|error| format!("no token: {}", root_cause(&error.without_url())))?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("no token: the authority answered {status}"));
        }
        let body = read_bounded(response, limits::TOKEN_BYTES).await;
        let body = body.map_err(|why| format!("no token: {why}"))?;
        let answer = serde_json::from_slice(&body);
        let answer: Value = answer.map_err(|_| "no token: the answer cannot be read")?;
        let token = answer["access_token"]
            .as_str()
            .ok_or("no token: the answer holds none")?;
        let lasts = match &answer["expires_in"] {
            Value::Number(seconds) => seconds.as_u64(),
            Value::String(seconds) => seconds.parse().ok(),
            _ => None,
        };
        Ok((token.to_string(), Duration::from_secs(lasts.unwrap_or(300))))
    }
}

/// Until when a token with this lifetime is used.
fn end(now: Duration, lasts: Duration) -> Duration {
    now + lasts.min(limits::TOKEN_TIME).saturating_sub(MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_before_its_time_and_within_a_day() {
        let now = Duration::from_secs(3600);
        let until = |seconds| end(now, Duration::from_secs(seconds)).as_secs();
        assert_eq!(until(300), 3600 + 240);
        assert_eq!(until(1), 3600);
        assert_eq!(until(u64::MAX), 3600 + 24 * 3600 - 60);
    }
}
