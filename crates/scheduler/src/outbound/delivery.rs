//! Delivery of job attempts to external targets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use steadfast_core::clock::Clock;
use steadfast_jobs::{Deliverer, DeliveryRequest, Outcome, RunPhase};

use super::action::{ActionCache, ActionTarget, Request};
use super::attempt_ids::AttemptIds;
use super::client_pool::{ClientPool, Options};
use super::http::{CallResult, OutboundCall};
use super::token::{OauthTokenRequest, TokenCache};
use super::{bus, queue};
use crate::SecretOwner;

/// Executes the calls of jobs.
pub struct OutboundDelivery {
    options: Arc<Options>,
    caller: ClientPool,
    actions: ActionCache,
    tokens: TokenCache,
    clock: Arc<dyn Clock>,
}

impl OutboundDelivery {
    /// Fails if the roots or the proxy are invalid.
    pub fn new(mut options: Options, clock: Arc<dyn Clock>) -> Result<Self, String> {
        options.connect.guard.is_proxied |= options.connect.proxy.is_some();
        let options = Arc::new(options);
        Ok(Self {
            caller: ClientPool::new(Arc::clone(&options))?,
            actions: ActionCache::new(Arc::clone(&options)),
            tokens: TokenCache::new(Arc::clone(&options), Arc::clone(&clock)),
            options,
            clock,
        })
    }

    async fn attempt(&self, order: &DeliveryRequest, tenure: u64) -> Result<CallResult, String> {
        let action = self.actions.get(&order.target)?;
        let permit = self.options.permit.as_ref();
        let epoch = if permit.is_some_and(|permit| permit.is_epoch) {
            tenure
        } else {
            order.epoch
        };
        let stamp = AttemptIds::of(order, epoch, tenure);
        match &action.goal {
            ActionTarget::Http(request) => self.request(order, request, &stamp).await,
            ActionTarget::StorageQueue(action) => {
                let call = queue::call(&self.options, order, action, &stamp)?;
                Ok(self.make(call, &self.caller.plain()).await)
            }
            ActionTarget::ServiceBus(action) => {
                let now = self.clock.now();
                let call = bus::call(&self.options, order, action, &stamp, now)?;
                Ok(self.make(call, &self.caller.plain()).await)
            }
        }
    }

    async fn make(&self, call: OutboundCall, client: &Client) -> CallResult {
        let plain = self.caller.plain();
        call.make(&self.options, client, &plain).await
    }

    async fn request(
        &self,
        order: &DeliveryRequest,
        request: &Request,
        stamp: &AttemptIds,
    ) -> Result<CallResult, String> {
        let mut headers = request.headers.clone();
        stamp.put(order, &self.options.region, &mut headers);
        let mut call = OutboundCall {
            name: "Http",
            method: request.method.clone(),
            url: request.url.clone(),
            headers,
            body: request.body.clone(),
            tenure: stamp.tenure,
        };
        if order.phase == RunPhase::DeadLetter {
            call.body = letter(order, stamp);
            let kind = HeaderValue::from_static("application/json");
            call.headers.insert(CONTENT_TYPE, kind);
        }
        let owner = SecretOwner::origin(&order.job, &request.url);
        self.authenticated(call, &owner, &request.authentication)
            .await
    }

    async fn authenticated(
        &self,
        mut call: OutboundCall,
        owner: &SecretOwner,
        authentication: &Value,
    ) -> Result<CallResult, String> {
        let open = |name: &str| {
            let key = &self.options.key;
            let secret = key.open(&authentication[name], &owner.place(name));
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
                let applicant = OauthTokenRequest {
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

    /// A rejected token is replaced once.
    async fn with_token(
        &self,
        mut call: OutboundCall,
        applicant: &OauthTokenRequest,
    ) -> Result<CallResult, String> {
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

/// The body of a dead letter.
fn letter(order: &DeliveryRequest, stamp: &AttemptIds) -> String {
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
impl Deliverer for OutboundDelivery {
    fn lane(&self, order: &DeliveryRequest) -> String {
        let action = self.actions.get(&order.target);
        action.map_or_else(|_| String::new(), |action| action.lane.clone())
    }

    fn tenure(&self) -> Option<u64> {
        self.options.tenure().ok()
    }

    async fn deliver(&self, order: &DeliveryRequest, tenure: u64) -> Outcome {
        let own = order.timeout_ms.map(Duration::from_millis);
        let timeout = own.map_or(self.options.timeout, |own| own.min(self.options.timeout));
        let failed = |message: String| Outcome {
            is_success: false,
            message,
        };
        match tokio::time::timeout(timeout, Box::pin(self.attempt(order, tenure))).await {
            Ok(Ok(reply)) => reply.outcome,
            Ok(Err(why)) => failed(why),
            Err(_) => failed(format!(
                "Http Action - The request was given up after {} seconds",
                timeout.as_secs_f64()
            )),
        }
    }
}
