//! Actions as JSON: target, request and retry policy.
//!
//! Reading yields the action in its stored form: words in canonical spelling, secrets
//! sealed, read-only members removed. An omitted secret is kept if its user and its
//! address stay the same; otherwise PUT and PATCH reject the action.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::{JobAction, JobId, JobRetry, Target};

use super::Pkcs12;
use super::context::{Context, Settings};
use super::error::SchedulerError;
use super::seal::{SecretOwner, is_sealed};
use super::value::JsonObject;

const TYPES: [(&str, &str); 6] = [
    ("Http", "Http"),
    ("Https", "Https"),
    ("StorageQueue", "StorageQueue"),
    ("ServiceBusQueue", "ServiceBusQueue"),
    ("ServiceBusTopic", "ServiceBusTopic"),
    ("Internal", "Internal"),
];

const METHODS: [&str; 7] = ["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Headers that belong to the connection, so that no job can set them.
const REFUSED: [&str; 10] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const MOST_URI: usize = 2048;
const MOST_HEADERS: usize = 50;
const MOST_HEADER_CHARS: usize = 4096;
const MOST_BODY: usize = 8192;
const MONTHS_18_MS: u64 = 548 * 24 * 3_600_000;

/// Reads an action of a job; `known` is the stored one that it replaces.
pub(crate) fn read(
    context: &Context,
    job: &JobId,
    object: &JsonObject<'_>,
    known: Option<&Value>,
) -> Result<Map<String, Value>, SchedulerError> {
    let kind = object
        .word("type", &TYPES)?
        .ok_or_else(|| object.wrong("type", "it is required"))?;
    let mut out = Map::from_iter([("type".to_string(), Value::from(kind))]);
    let (name, message) = match kind {
        "Http" | "Https" => ("request", read_request(context, job, object, kind, known)?),
        "StorageQueue" => ("queueMessage", read_queue(context, job, object, known)?),
        "ServiceBusQueue" => {
            let names = ("serviceBusQueueMessage", "queueName");
            (names.0, read_bus(context, job, object, names, known)?)
        }
        "ServiceBusTopic" => {
            let names = ("serviceBusTopicMessage", "topicPath");
            (names.0, read_bus(context, job, object, names, known)?)
        }
        _ => ("internal", read_internal(object)?),
    };
    out.insert(name.into(), message);
    if let Some(policy) = object.object("retryPolicy")? {
        out.insert(
            "retryPolicy".into(),
            read_policy(&policy, &context.settings)?,
        );
    }
    Ok(out)
}

fn part<'a>(object: &JsonObject<'a>, name: &str) -> Result<JsonObject<'a>, SchedulerError> {
    let found = object.object(name)?;
    found.ok_or_else(|| object.wrong(name, "it is required for this type of action"))
}

fn read_request(
    context: &Context,
    job: &JobId,
    object: &JsonObject<'_>,
    kind: &str,
    known: Option<&Value>,
) -> Result<Value, SchedulerError> {
    let request = part(object, "request")?;
    let uri = request.required_text("uri")?;
    if uri.chars().count() > MOST_URI {
        return Err(request.wrong("uri", format!("it is longer than {MOST_URI} characters")));
    }
    let scheme = if kind == "Http" { "http" } else { "https" };
    let parsed = reqwest::Url::parse(uri).ok().filter(|uri| uri.has_host());
    let url = parsed.ok_or_else(|| request.wrong("uri", "it is not an absolute address"))?;
    if url.scheme() != scheme {
        let message = format!("an action of type {kind} needs an address with {scheme}://");
        return Err(request.wrong("uri", message));
    }
    let known = known.map(|known| &known["request"]);
    // Other changes of an existing job stay possible, for instance disabling it.
    if known.is_none_or(|known| known["uri"] != uri) {
        let judged = context.egress.judge_literal(&url);
        judged.map_err(|why| request.wrong("uri", why))?;
    }
    let method = request
        .text("method")?
        .unwrap_or("GET")
        .to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        let message = format!("it must be one of {}", METHODS.join(", "));
        return Err(SchedulerError::verb(request.at("method"), message));
    }
    let mut out = Map::new();
    out.insert("uri".into(), uri.into());
    out.insert("method".into(), method.into());
    if let Some(body) = request.text("body")? {
        if body.chars().count() > MOST_BODY {
            return Err(request.wrong("body", format!("it is longer than {MOST_BODY} characters")));
        }
        out.insert("body".into(), body.into());
    }
    if request.get("headers").is_some() {
        out.insert("headers".into(), read_headers(&request)?);
    }
    if let Some(authentication) = request.object("authentication")? {
        let stored = StoredCredential {
            owner: &SecretOwner::origin(job, &url),
            value: known.map(|known| &known["authentication"]),
            is_same: known.is_some_and(|known| is_same_origin(&known["uri"], uri)),
        };
        if let Some(value) = read_authentication(context, &authentication, stored)? {
            out.insert("authentication".into(), value);
        }
    }
    Ok(out.into())
}

fn read_headers(request: &JsonObject<'_>) -> Result<Value, SchedulerError> {
    let headers = request.texts("headers")?;
    if headers.len() > MOST_HEADERS {
        return Err(request.wrong("headers", format!("there are more than {MOST_HEADERS}")));
    }
    let chars = |(name, value): &(&str, String)| name.chars().count() + value.chars().count();
    if headers.iter().map(chars).sum::<usize>() > MOST_HEADER_CHARS {
        let message = format!("together they are longer than {MOST_HEADER_CHARS} characters");
        return Err(request.wrong("headers", message));
    }
    let mut out = Map::new();
    for (name, value) in headers {
        let target = format!("headers.{name}");
        let is_name = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
        let is_value = reqwest::header::HeaderValue::from_str(&value).is_ok();
        if !is_name || !is_value {
            return Err(request.wrong(&target, "it is not a header"));
        }
        if REFUSED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(request.wrong(&target, "this header belongs to the connection"));
        }
        out.insert(name.into(), value.into());
    }
    Ok(out.into())
}

/// The stored value of an object with a secret.
#[derive(Clone, Copy)]
struct StoredCredential<'v> {
    /// The owner of the secrets from now on.
    owner: &'v SecretOwner,
    value: Option<&'v Value>,
    /// Whether the address and all members compared so far are unchanged.
    is_same: bool,
}

impl<'v> StoredCredential<'v> {
    /// Compares a member that identifies the owner or the purpose of the secret.
    fn same(self, name: &str, value: &str) -> Self {
        let stored = self.value.and_then(|stored| stored[name].as_str());
        Self {
            is_same: self.is_same && stored == Some(value),
            ..self
        }
    }

    /// The stored secret. Fails if its owner or address has changed.
    fn secret(self, object: &JsonObject<'_>, name: &str) -> Result<&'v Value, SchedulerError> {
        let sealed = self.value.map(|stored| &stored[name]);
        match sealed.filter(|sealed| is_sealed(sealed)) {
            Some(sealed) if self.is_same => Ok(sealed),
            Some(_) => Err(object.wrong(name, OTHER_OWNER)),
            None => Err(object.wrong(name, "it is required")),
        }
    }
}

/// Why a stored secret is not kept.
const OTHER_OWNER: &str = "it is required: the stored secret belongs to another user or \
                           address; send the secret together with the change";

/// Whether two addresses have the same scheme, host and port.
fn is_same_origin(stored: &Value, uri: &str) -> bool {
    let parse = |text: &str| reqwest::Url::parse(text).ok();
    let stored = stored.as_str().and_then(parse);
    match (stored, parse(uri)) {
        (Some(stored), Some(uri)) => stored.origin() == uri.origin(),
        _ => false,
    }
}

/// A secret: the given one, or the stored one if it has the same owner.
///
/// A PATCH merges its body into the stored document, so a sealed secret in `object` is
/// one that was omitted.
fn secret(
    context: &Context,
    object: &JsonObject<'_>,
    name: &str,
    stored: StoredCredential<'_>,
) -> Result<Value, SchedulerError> {
    let place = stored.owner.place(name);
    match object.get(name) {
        Some(Value::String(text)) => return Ok(context.key.seal(text, &place)),
        Some(sealed) if is_sealed(sealed) => {}
        Some(_) => return Err(object.wrong(name, "a text is expected")),
        None => {}
    }
    let sealed = stored.secret(object, name)?;
    Ok(context.key.keep(sealed, &place))
}

fn read_authentication(
    context: &Context,
    object: &JsonObject<'_>,
    stored: StoredCredential<'_>,
) -> Result<Option<Value>, SchedulerError> {
    let types = [
        ("NotSpecified", 0),
        ("Basic", 1),
        ("ClientCertificate", 2),
        ("ActiveDirectoryOAuth", 3),
    ];
    let kind = object.word("type", &types)?;
    let kind = kind.ok_or_else(|| object.wrong("type", "it is required"))?;
    match kind {
        0 => Ok(None),
        1 => {
            let username = object.required_text("username")?;
            let stored = stored.same("type", "Basic").same("username", username);
            let password = secret(context, object, "password", stored)?;
            Ok(Some(
                json!({"type": "Basic", "username": username, "password": password}),
            ))
        }
        2 => read_certificate(context, object, stored).map(Some),
        _ => {
            let (tenant, audience) = (
                object.required_text("tenant")?,
                object.required_text("audience")?,
            );
            let client = object.required_text("clientId")?;
            let stored = stored
                .same("type", "ActiveDirectoryOAuth")
                .same("tenant", tenant)
                .same("audience", audience)
                .same("clientId", client);
            let secret = secret(context, object, "secret", stored)?;
            Ok(Some(json!({
                "type": "ActiveDirectoryOAuth",
                "tenant": tenant,
                "audience": audience,
                "clientId": client,
                "secret": secret,
            })))
        }
    }
}

fn read_certificate(
    context: &Context,
    object: &JsonObject<'_>,
    stored: StoredCredential<'_>,
) -> Result<Value, SchedulerError> {
    // Sealed members of a PATCH were omitted.
    let given = |name: &str| match object.get(name) {
        Some(sealed) if is_sealed(sealed) => Ok(None),
        _ => object.text(name),
    };
    let Some(pfx) = given("pfx")? else {
        let thumbprint = object.text("certificateThumbprint")?.unwrap_or_default();
        let stored = stored
            .same("type", "ClientCertificate")
            .same("certificateThumbprint", &thumbprint.to_ascii_uppercase());
        stored.secret(object, "pfx")?;
        let mut kept = stored.value.cloned().unwrap_or_default();
        for name in ["pfx", "password"] {
            kept[name] = context.key.keep(&kept[name], &stored.owner.place(name));
        }
        return Ok(kept);
    };
    let password = given("password")?.unwrap_or_default();
    let identity = Pkcs12::read(pfx, password).map_err(|why| object.wrong("pfx", why))?;
    let mut out = json!({
        "type": "ClientCertificate",
        "pfx": context.key.seal(pfx, &stored.owner.place("pfx")),
        "password": context.key.seal(password, &stored.owner.place("password")),
        "certificateThumbprint": identity.thumbprint,
        "certificateSubjectName": identity.subject,
    });
    if let Some(expires) = identity.expires {
        out["certificateExpirationDate"] = iso::format_time(expires).into();
    }
    Ok(out)
}

fn read_queue(
    context: &Context,
    job: &JobId,
    object: &JsonObject<'_>,
    known: Option<&Value>,
) -> Result<Value, SchedulerError> {
    let message = part(object, "queueMessage")?;
    let account = message.required_text("storageAccount")?;
    let queue = message.required_text("queueName")?;
    let stored = StoredCredential {
        owner: &SecretOwner::entity(job, account, queue),
        value: known.map(|known| &known["queueMessage"]),
        is_same: true,
    };
    let stored = stored
        .same("storageAccount", account)
        .same("queueName", queue);
    let token = secret(context, &message, "sasToken", stored)?;
    Ok(json!({
        "storageAccount": account,
        "queueName": queue,
        "sasToken": token,
        "message": message.text("message")?.unwrap_or_default(),
    }))
}

fn read_bus(
    context: &Context,
    job: &JobId,
    object: &JsonObject<'_>,
    (name, place): (&str, &str),
    known: Option<&Value>,
) -> Result<Value, SchedulerError> {
    let message = part(object, name)?;
    let namespace = message.required_text("namespace")?;
    let queue = message.required_text(place)?;
    let transport = [
        ("NotSpecified", "NotSpecified"),
        ("NetMessaging", "NetMessaging"),
        ("AMQP", "AMQP"),
    ];
    let transport = message.word("transportType", &transport)?;
    let mut out = json!({
        "namespace": namespace,
        place: queue,
        "message": message.text("message")?.unwrap_or_default(),
        "transportType": transport.unwrap_or("NotSpecified"),
    });
    if let Some(authentication) = message.object("authentication")? {
        let types = [
            ("NotSpecified", "NotSpecified"),
            ("SharedAccessKey", "SharedAccessKey"),
        ];
        let kind = authentication
            .word("type", &types)?
            .unwrap_or("SharedAccessKey");
        let key_name = authentication.required_text("sasKeyName")?;
        let address = StoredCredential {
            owner: &SecretOwner::entity(job, namespace, queue),
            value: known.map(|known| &known[name]),
            is_same: true,
        };
        let address = address.same("namespace", namespace).same(place, queue);
        let stored = StoredCredential {
            value: address.value.map(|known| &known["authentication"]),
            ..address
        };
        let stored = stored.same("sasKeyName", key_name);
        out["authentication"] = json!({
            "type": kind,
            "sasKeyName": key_name,
            "sasKey": secret(context, &authentication, "sasKey", stored)?,
        });
    }
    if let Some(properties) = message.get("brokeredMessageProperties") {
        JsonObject::new(properties, message.at("brokeredMessageProperties"))?;
        out["brokeredMessageProperties"] = properties.clone();
    }
    if message.get("customMessageProperties").is_some() {
        let custom = message.texts("customMessageProperties")?;
        let custom: Map<_, _> = custom
            .into_iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        out["customMessageProperties"] = custom.into();
    }
    Ok(out)
}

/// The existence of the instance is checked after everything else.
fn read_internal(object: &JsonObject<'_>) -> Result<Value, SchedulerError> {
    let internal = object.get("internal");
    let internal = internal.ok_or_else(|| object.wrong("internal", "it is required"))?;
    if internal.is_object() {
        Ok(internal.clone())
    } else {
        Err(object.wrong("internal", "an object is expected"))
    }
}

fn read_policy(object: &JsonObject<'_>, settings: &Settings) -> Result<Value, SchedulerError> {
    let types = [("None", false), ("Fixed", true)];
    let is_fixed = object.word("retryType", &types)?.unwrap_or(true);
    if !is_fixed {
        return Ok(json!({"retryType": "None"}));
    }
    let least_ms = settings.min_retry_interval.as_millis() as u64;
    let interval = object.duration("retryInterval")?.unwrap_or(30_000);
    if interval < least_ms || interval > MONTHS_18_MS {
        let least = iso::format_duration(settings.min_retry_interval);
        let message = format!("it must be {least} at least and 18 months at most");
        return Err(object.wrong("retryInterval", message));
    }
    let count = object.number_in("retryCount", 1..=20)?.unwrap_or(4);
    Ok(json!({
        "retryType": "Fixed",
        "retryInterval": iso::format_duration(Duration::from_millis(interval)),
        "retryCount": count,
    }))
}

/// The retry policy of a stored action.
pub(crate) fn retry(action: &Value, backoff: Option<(f64, Option<u64>)>) -> Option<JobRetry> {
    let policy = action.get("retryPolicy")?;
    if policy["retryType"] == "None" {
        return Some(JobRetry::NONE);
    }
    let interval = policy["retryInterval"]
        .as_str()
        .and_then(iso::parse_duration);
    let mut retry = JobRetry::default();
    if let Some(interval) = interval {
        retry.interval_ms = interval.as_millis() as u64;
    }
    if let Some(count) = policy["retryCount"].as_u64() {
        retry.count = count as u32;
    }
    Some(grown(retry, backoff))
}

/// Adds exponential backoff to a policy, if the job asks for it.
pub(crate) fn grown(mut retry: JobRetry, backoff: Option<(f64, Option<u64>)>) -> JobRetry {
    if let Some((factor, longest)) = backoff {
        retry.factor = factor;
        retry.longest_ms = longest;
    }
    retry
}

/// Converts a stored action, which stands at `path`, to the service's form.
pub(crate) async fn action(
    context: &Context,
    job: &JobId,
    stored: &Value,
    retry: JobRetry,
    path: &str,
) -> Result<JobAction, SchedulerError> {
    let target = match stored["type"].as_str() {
        Some("Internal") => {
            let resolved = context.internal.resolve(job, &stored["internal"]).await;
            resolved.map_err(|why| SchedulerError::member(format!("{path}.internal"), why))?
        }
        _ => {
            let mut plain = stored.clone();
            if let Some(map) = plain.as_object_mut() {
                map.remove("retryPolicy");
                map.remove("errorAction");
            }
            Target::Outside(plain.to_string())
        }
    };
    Ok(JobAction { target, retry })
}

/// The latest start of a job: eighteen months from `now`.
pub(crate) fn latest_start(now: Timestamp) -> Timestamp {
    now.plus(Duration::from_millis(MONTHS_18_MS))
}
