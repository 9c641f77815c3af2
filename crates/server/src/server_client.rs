//! A client of the REST interface of a server.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::server_context::ServerContext;

/// The time-out of an ordinary request.
const PATIENCE: Duration = Duration::from_secs(10);

/// What precedes the server's error if no key was given.
const NO_KEY: &str = "no access key was given: add --key-file, set STEADFAST_KEY, or use a \
    context (steadfast context add)";

/// The header with the cursor of the Durable Functions interface.
const CONTINUATION: &str = "x-ms-continuation-token";

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
    /// Whether requests are printed.
    is_verbose: bool,
}

impl ServerClient {
    /// Creates a client of the server that the options name, without connecting.
    pub(crate) fn new(globals: &Globals) -> Result<Self> {
        let mut client = Self::of(globals.server()?)?;
        client.transport.is_verbose = globals.verbose;
        Ok(client)
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
        let client = client.build().context("make an HTTP client")?;
        let transport = HttpTransport {
            server,
            client,
            is_verbose: false,
        };
        Ok(Self {
            transport,
            runtime: runtime()?,
        })
    }

    /// A client of the same server with connections of its own, for another thread.
    pub(crate) fn twin(&self) -> Result<Self> {
        Self::of(self.transport.server.clone())
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

    /// Requests a page of a list whose cursor is a header. Returns the next cursor, too.
    pub(crate) fn continued(
        &self,
        path: &str,
        cursor: Option<&str>,
    ) -> Result<(Value, Option<String>)> {
        let mut headers = HeaderMap::new();
        if let Some(cursor) = cursor {
            let cursor = cursor.parse().context("the cursor is not from a list")?;
            headers.insert(CONTINUATION, cursor);
        }
        let request = self.transport.prepare(Method::GET, path).headers(headers);
        let answered = self.transport.exchange(PATIENCE, request);
        let (text, headers) = self.runtime.block_on(answered)?;
        let next = headers.get(CONTINUATION);
        let next = next.and_then(|next| Some(next.to_str().ok()?.to_owned()));
        Ok((self.parse(&text)?, next))
    }

    /// Sends a request with this time-out.
    pub(crate) fn request_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let sent = self.transport.send(limit, method, path, body);
        let text = self.runtime.block_on(sent)?;
        self.parse(&text)
    }

    /// A response as a value; an empty one is null.
    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        let text = if text.is_empty() { "null" } else { text };
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
        let mut request = self.prepare(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        Ok(self.exchange(limit, request).await?.0)
    }

    /// A request with the key of the server, if there is one.
    fn prepare(&self, method: Method, path: &str) -> RequestBuilder {
        if self.is_verbose {
            eprintln!("steadfast: {method} {}{path}", self.server.url);
        }
        let url = format!("{}{path}", self.server.url);
        let request = self.client.request(method, url);
        if self.server.key.is_empty() {
            request
        } else {
            request.bearer_auth(&self.server.key)
        }
    }

    /// Sends a request and reads the response: the body and the headers of a success.
    async fn exchange(
        &self,
        limit: Duration,
        request: RequestBuilder,
    ) -> Result<(String, HeaderMap)> {
        let answer = request.timeout(limit).send().await;
        let answer = answer.map_err(|error| self.unreachable(&error, limit))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let url = &self.server.url;
        let text = answer.text().await;
        let text = text.with_context(|| format!("read the response of {url}"))?;
        if self.is_verbose {
            eprintln!("steadfast: {status}, {} bytes", text.len());
        }
        if status.is_success() {
            return Ok((text, headers));
        }
        let error = refused(status, &text);
        if status == StatusCode::UNAUTHORIZED && self.server.is_key_assumed {
            return Err(error.context(NO_KEY));
        }
        Err(error)
    }

    fn unreachable(&self, error: &reqwest::Error, limit: Duration) -> anyhow::Error {
        let url = &self.server.url;
        if error.is_timeout() {
            let seconds = limit.as_secs();
            let message = format!("{url} has not responded within {seconds} s");
            return CommandError::TimedOut(message).into();
        }
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(|| error.to_string(), root);
        anyhow!("{url} cannot be reached ({cause}): is it running? see `steadfast context list`")
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().context("start a runtime")
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
    let message = if message.is_empty() {
        format!("the server responded with {status}")
    } else if message.starts_with(&code) || message.starts_with("STF-") {
        message
    } else {
        format!("{code}: {message}")
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
        let message = format!("'{name}' is not a name");
        return Err(CommandError::Usage(message).into());
    }
    Ok(encoded(name))
}

/// Percent-encodes a text for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
