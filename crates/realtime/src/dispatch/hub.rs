//! The hub trait that the macro implements.
//!
//! `#[hub]` on an impl block implements [`Hub`] for a type; it is not written by
//! hand.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_wire::signalr::Protocol;

use crate::dispatch::context::Context;
use crate::dispatch::upload::{UntypedUpload, Upload};
use crate::dispatch::value;
use crate::error::Error;

/// A type whose methods clients call.
pub trait Hub: Send + Sync + 'static {
    /// Its methods.
    const METHODS: &'static [Method];

    /// Calls the method of that index.
    fn call(self: Arc<Self>, method: usize, call: MethodCall)
    -> BoxFuture<'static, MethodResponse>;

    /// A client has connected or migrated here. An error rejects it.
    fn on_connected(self: Arc<Self>, context: Context) -> BoxFuture<'static, HubResult<()>> {
        drop((self, context));
        Box::pin(std::future::ready(Ok(())))
    }

    /// A client has disconnected, or migrates to another server.
    fn on_disconnected(
        self: Arc<Self>,
        context: Context,
        error: Option<String>,
    ) -> BoxFuture<'static, HubResult<()>> {
        drop((self, context, error));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One method of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its name; case and underscores are ignored.
    pub name: &'static str,
    /// Whether it returns a stream.
    pub is_stream: bool,
    /// Number of plain arguments.
    pub arguments: usize,
    /// Number of streams it takes.
    pub uploads: usize,
}

impl Method {
    /// Whether `name`, as sent by a client, names this method.
    pub(crate) fn is(&self, name: &str) -> bool {
        let letters = |text: &'static str| text.bytes().filter(|byte| *byte != b'_');
        let asked = name.bytes().filter(|byte| *byte != b'_');
        letters(self.name)
            .map(|byte| byte.to_ascii_lowercase())
            .eq(asked.map(|byte| byte.to_ascii_lowercase()))
    }
}

/// The error of a hub method.
///
/// A text made by [`HubError::new`] is sent to the client. Any other error converts
/// by `?`: the client receives a general message only, unless the hub shows details.
#[derive(Debug)]
pub struct HubError {
    said: String,
    is_for_client: bool,
}

/// The result of a hub's method.
pub type HubResult<T> = Result<T, HubError>;

impl HubError {
    /// An error whose text is sent to the client.
    pub fn new(said: impl Into<String>) -> Self {
        Self {
            said: said.into(),
            is_for_client: true,
        }
    }

    /// The error text sent to the caller of `method`.
    pub(crate) fn told(&self, method: &str, shows_details: bool) -> String {
        let said = &self.said;
        let general = format!("An unexpected error occurred invoking '{method}' on the server.");
        match (self.is_for_client, shows_details) {
            (true, _) => format!("{general} HubException: {said}"),
            (false, true) => format!("{general} {said}"),
            (false, false) => general,
        }
    }
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl<E: std::error::Error> From<E> for HubError {
    fn from(error: E) -> Self {
        Self {
            said: error.to_string(),
            is_for_client: false,
        }
    }
}

/// One call of a method: its context and arguments.
pub struct MethodCall {
    pub(crate) context: Context,
    pub(crate) protocol: Protocol,
    pub(crate) arguments: std::vec::IntoIter<Bytes>,
    pub(crate) uploads: std::vec::IntoIter<UntypedUpload>,
}

impl MethodCall {
    /// The context of the call.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// The next argument.
    pub fn argument<T: DeserializeOwned>(&mut self) -> Result<T, MethodResponse> {
        let raw = self.arguments.next().unwrap_or_default();
        value::read(self.protocol, &raw).map_err(MethodResponse::Unfit)
    }

    /// The next stream of the client.
    pub fn upload<T: DeserializeOwned>(&mut self) -> Result<Upload<T>, MethodResponse> {
        let missing = || MethodResponse::Failed(HubError::new("a stream is missing"));
        let raw = self.uploads.next().ok_or_else(missing)?;
        Ok(raw.typed(self.protocol))
    }

    /// The protocol of the response.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
}

/// The response of a method.
pub enum MethodResponse {
    /// A serialized value.
    Value(Bytes),
    /// Nothing.
    Void,
    /// A stream of items.
    Stream(BoxStream<'static, HubResult<Bytes>>),
    /// An argument does not have the type of its parameter.
    Unfit(Error),
    /// The method has failed.
    Failed(HubError),
}

impl MethodResponse {
    /// A response with a value.
    pub fn value<T: Serialize>(protocol: Protocol, value: &T) -> Self {
        match value::write(protocol, value) {
            Ok(raw) => Self::Value(raw),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// A response with a value or an error.
    pub fn result<T: Serialize, E: Into<HubError>>(
        protocol: Protocol,
        result: Result<T, E>,
    ) -> Self {
        match result {
            Ok(value) => Self::value(protocol, &value),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// A response with a stream of items.
    pub fn stream<S>(protocol: Protocol, items: S) -> Self
    where
        S: Stream + Send + 'static,
        S::Item: Serialize + Send,
    {
        let items = items.map(move |item| Ok(value::write(protocol, &item)?));
        Self::Stream(items.boxed())
    }

    /// A response with a stream of items that may fail.
    pub fn try_stream<S, T, E>(protocol: Protocol, items: S) -> Self
    where
        S: Stream<Item = Result<T, E>> + Send + 'static,
        T: Serialize + Send,
        E: Into<HubError> + Send,
    {
        let items = items.map(move |item| match item {
            Ok(item) => Ok(value::write(protocol, &item)?),
            Err(error) => Err(error.into()),
        });
        Self::Stream(items.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_underscores() {
        let method = Method {
            name: "send_message",
            is_stream: false,
            arguments: 0,
            uploads: 0,
        };
        for name in ["SendMessage", "sendMessage", "send_message"] {
            assert!(method.is(name), "{name}");
        }
        assert!(!method.is("send") && !method.is("SendMessages"));
    }

    #[test]
    fn a_client_learns_only_what_is_meant_for_it() {
        let general = "An unexpected error occurred invoking 'm' on the server.";
        let meant = HubError::new("no such room");
        assert_eq!(
            meant.told("m", false),
            format!("{general} HubException: no such room")
        );
        let inner: HubError = std::io::Error::other("password").into();
        assert_eq!(inner.told("m", false), general);
        assert_eq!(inner.told("m", true), format!("{general} password"));
    }
}
