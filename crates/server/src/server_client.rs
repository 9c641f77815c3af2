//! A client of the REST interface of a server.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use reqwest::{Client, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::{ServerContext, Target};
use crate::exit::CommandError;

/// The time-out of an ordinary request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A blocking client of a server.
pub(crate) struct ServerClient {
    transport: HttpTransport,
    runtime: tokio::runtime::Runtime,
}

/// The HTTP client and the server that it uses.
#[derive(Clone)]
struct HttpTransport {
    server: ServerContext,
    client: Client,
}

impl ServerClient {
    /// Creates a client of the target server, without connecting.
    pub(crate) fn new(target: &Target) -> Result<Self> {
        Self::of(target.server()?)
    }

    /// Creates a client of this server, without connecting.
    pub(crate) fn of(mut server: ServerContext) -> Result<Self> {
        // Every path begins with a slash.
        server.url.truncate(server.url.trim_end_matches('/').len());
        let mut client = Client::builder().connect_timeout(PATIENCE);
        if let Some(ca) = &server.ca {
            let pem = std::fs::read(ca).with_context(|| format!("read {}", ca.display()))?;
            let authority = reqwest::Certificate::from_pem(&pem);
            let authority = authority.with_context(|| format!("read {}", ca.display()))?;
            client = client.tls_certs_merge([authority]);
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let client = client.build().context("make an HTTP client")?;
        Ok(Self {
            transport: HttpTransport { server, client },
            runtime: runtime.enable_all().build().context("start a runtime")?,
        })
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.transport.server.url
    }

    /// Sends a request with the ordinary time-out.
    pub(crate) fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        self.request_within(PATIENCE, method, path, body)
    }

    /// Sends a request with this time-out.
    pub(crate) fn request_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let text = self
            .runtime
            .block_on(self.transport.send(limit, method, path, body))?;
        let text = if text.is_empty() { "null" } else { &text };
        let url = self.url();
        serde_json::from_str(text).with_context(|| format!("{url} is not a Steadfast server"))
    }

    /// Runs a future to completion.
    pub(crate) fn block<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Sends a GET request that may run concurrently with others.
    pub(crate) fn get(
        &self,
        limit: Duration,
        path: String,
    ) -> impl Future<Output = Result<Value>> + Send + use<> {
        let way = self.transport.clone();
        async move {
            let text = way.send(limit, Method::GET, &path, None).await?;
            let url = &way.server.url;
            serde_json::from_str(&text).with_context(|| format!("{url} is not a Steadfast server"))
        }
    }
}

impl HttpTransport {
    async fn send(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<String> {
        let url = format!("{}{path}", self.server.url);
        let mut request = self
            .client
            .request(method, &url)
            .bearer_auth(&self.server.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.timeout(limit).send().await;
        let answer = answer.map_err(|error| self.unreachable(&error, limit))?;
        let status = answer.status();
        let text = answer
            .text()
            .await
            .with_context(|| format!("read the answer of {url}"))?;
        if status.is_success() {
            Ok(text)
        } else {
            Err(refused(status, &text))
        }
    }

    fn unreachable(&self, error: &reqwest::Error, limit: Duration) -> anyhow::Error {
        let url = &self.server.url;
        if error.is_timeout() {
            let seconds = limit.as_secs();
            let message = format!("{url} has not answered within {seconds} s");
            return CommandError::TimedOut(message).into();
        }
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(|| error.to_string(), root);
        anyhow!("{url} cannot be reached ({cause}): is it running? see `steadfast context list`")
    }
}

/// The root cause: the errors above it only repeat that the request failed.
fn root(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn refused(status: StatusCode, text: &str) -> anyhow::Error {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    let (code, message) = (field("code"), field("message"));
    let message = match message.is_empty() {
        true => format!("the server answered {status}"),
        false if message.starts_with(&code) => message,
        false => format!("{code}: {message}"),
    };
    match status {
        StatusCode::NOT_FOUND => CommandError::NotFound(message).into(),
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => {
            CommandError::TimedOut(message).into()
        }
        _ => anyhow!(message),
    }
}

/// Encodes a name as a path segment.
pub(crate) fn segment(name: &str) -> Result<String> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '?', '#', '%']) {
        bail!("'{name}' is not a name");
    }
    Ok(name.replace(' ', "%20"))
}
