//! Carries the attempts of jobs to the outside.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::clock::Clock;
use steadfast_jobs::{Deliver, Order, Outcome, Phase};

use super::caller::{Caller, Options};
use super::http::{Call, Reply};
use super::stamp::Stamp;
use super::token::{Applicant, Tokens};
use super::{bus, queue};

/// Makes the calls of jobs.
pub struct Outbound {
    options: Arc<Options>,
    caller: Caller,
    tokens: Tokens,
    clock: Arc<dyn Clock>,
}

impl Outbound {
    /// Ready to call. It fails if roots or proxy cannot be used.
    pub fn new(mut options: Options, clock: Arc<dyn Clock>) -> Result<Self, String> {
        options.guard.is_proxied |= options.proxy.is_some();
        let options = Arc::new(options);
        Ok(Self {
            caller: Caller::new(Arc::clone(&options))?,
            tokens: Tokens::new(Arc::clone(&options), Arc::clone(&clock)),
            options,
            clock,
        })
    }

    async fn attempt(&self, order: &Order) -> Result<Reply, String> {
        let action = serde_json::from_str(&order.target);
        let action: Value = action.map_err(|_| "the stored action cannot be read")?;
        let stamp = Stamp::of(order);
        match action["type"].as_str() {
            Some("StorageQueue") => {
                let call = queue::call(&self.options, &action, &stamp)?;
                Ok(self.make(call, &self.caller.plain()).await)
            }
            Some("ServiceBusQueue" | "ServiceBusTopic") => {
                let now = self.clock.now();
                let call = bus::call(&self.options, &action, &stamp, now)?;
                Ok(self.make(call, &self.caller.plain()).await)
            }
            _ => self.request(order, &action["request"], &stamp).await,
        }
    }

    async fn make(&self, call: Call, client: &Client) -> Reply {
        let plain = self.caller.plain();
        call.make(&self.options, client, &plain).await
    }

    async fn request(
        &self,
        order: &Order,
        request: &Value,
        stamp: &Stamp,
    ) -> Result<Reply, String> {
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let url = Url::parse(text("uri")).map_err(|_| "the address cannot be read")?;
        let method = Method::from_bytes(text("method").as_bytes());
        let mut headers = own_headers(request);
        stamp.put(order, &self.options.region, &mut headers);
        let mut call = Call {
            name: "Http",
            method: method.map_err(|_| "the method cannot be read")?,
            url,
            headers,
            body: text("body").to_string(),
            epoch: stamp.epoch,
        };
        if order.phase == Phase::DeadLetter {
            call.body = letter(order, stamp);
            let kind = HeaderValue::from_static("application/json");
            call.headers.insert(CONTENT_TYPE, kind);
        }
        self.authenticated(call, &request["authentication"]).await
    }

    async fn authenticated(&self, mut call: Call, authentication: &Value) -> Result<Reply, String> {
        let open = |name: &str| {
            let secret = self.options.key.open(&authentication[name]);
            secret.ok_or("a secret of the job cannot be opened with the configured key")
        };
        let text = |name: &str| authentication[name].as_str().unwrap_or_default();
        match text("type") {
            "Basic" => {
                let pair = format!("{}:{}", text("username"), open("password")?);
                let value = format!("Basic {}", STANDARD.encode(pair));
                call.headers.insert(AUTHORIZATION, sensitive(&value)?);
                Ok(self.make(call, &self.caller.plain()).await)
            }
            "ClientCertificate" => {
                let client = self.caller.with(&open("pfx")?, &open("password")?)?;
                Ok(self.make(call, &client).await)
            }
            "ActiveDirectoryOAuth" => {
                let applicant = Applicant {
                    tenant: text("tenant").into(),
                    audience: text("audience").into(),
                    client: text("clientId").into(),
                    secret: open("secret")?,
                };
                self.with_token(call, &applicant).await
            }
            _ => Ok(self.make(call, &self.caller.plain()).await),
        }
    }

    /// A refused token is replaced once.
    async fn with_token(&self, mut call: Call, applicant: &Applicant) -> Result<Reply, String> {
        let plain = self.caller.plain();
        let mut is_second = false;
        loop {
            let token = self.tokens.get(&plain, applicant).await?;
            let value = sensitive(&format!("Bearer {token}"))?;
            call.headers.insert(AUTHORIZATION, value);
            let reply = self.make(call.clone(), &plain).await;
            if is_second || reply.status != Some(StatusCode::UNAUTHORIZED) {
                return Ok(reply);
            }
            self.tokens.forget(applicant);
            is_second = true;
        }
    }
}

fn sensitive(value: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(value);
    let mut value = value.map_err(|_| "the credentials cannot stand in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

fn own_headers(request: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// As much of an action as says where it goes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Goal {
    request: Option<Place>,
    queue_message: Option<Place>,
    service_bus_queue_message: Option<Place>,
    service_bus_topic_message: Option<Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    uri: Option<String>,
    storage_account: Option<String>,
    namespace: Option<String>,
}

impl Goal {
    fn host(self) -> String {
        let uri = self.request.and_then(|request| request.uri);
        if let Some(uri) = uri.and_then(|uri| Url::parse(&uri).ok()) {
            let port = uri.port_or_known_default().unwrap_or(0);
            return format!("{}:{port}", uri.host_str().unwrap_or_default());
        }
        let bus = self
            .service_bus_queue_message
            .or(self.service_bus_topic_message);
        let account = self.queue_message.and_then(|queue| queue.storage_account);
        account
            .or_else(|| bus.and_then(|bus| bus.namespace))
            .unwrap_or_default()
    }
}

/// What a dead letter says.
fn letter(order: &Order, stamp: &Stamp) -> String {
    json!({
        "subscription": order.job.collection.subscription,
        "resourceGroup": order.job.collection.group,
        "jobCollection": order.job.collection.name,
        "job": order.job.name,
        "idempotencyKey": stamp.key,
        "expectedExecutionTime": stamp.expected,
        "repeatCount": order.ordinal,
        "message": order.last,
    })
    .to_string()
}

#[async_trait]
impl Deliver for Outbound {
    fn lane(&self, order: &Order) -> String {
        serde_json::from_str(&order.target).map_or_else(|_| String::new(), |goal: Goal| goal.host())
    }

    fn may_send(&self) -> bool {
        self.options.epoch().is_ok()
    }

    async fn deliver(&self, order: Order) -> Outcome {
        let own = order.timeout_ms.map(Duration::from_millis);
        let timeout = own.map_or(self.options.timeout, |own| own.min(self.options.timeout));
        let failed = |message: String| Outcome {
            is_success: false,
            message,
        };
        let mut order = order;
        match self.options.epoch() {
            Ok(epoch) => order.epoch = epoch.unwrap_or(order.epoch),
            Err(why) => return failed(why),
        }
        match tokio::time::timeout(timeout, Box::pin(self.attempt(&order))).await {
            Ok(Ok(reply)) => reply.outcome,
            Ok(Err(why)) => failed(why),
            Err(_) => failed(format!(
                "Http Action - The request was given up after {} seconds",
                timeout.as_secs_f64()
            )),
        }
    }
}
