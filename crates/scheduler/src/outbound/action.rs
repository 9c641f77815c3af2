//! Actions of jobs, parsed once and executed often.
//!
//! The stored action is a document. Most jobs repeat the same action, so parsed actions
//! are cached in a bounded memory.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use super::client_pool::Options;
use super::queue::endpoint;
use super::{bus, queue};

/// Maximum number of cached actions, and bytes of their documents.
const KEPT: usize = 1024;
const KEPT_BYTES: u64 = 1024 * 1024;

/// The action of a job, ready to be executed.
pub(crate) struct OutboundAction {
    /// Target host and port: attempts at the same one share a lane.
    pub(crate) lane: String,
    pub(crate) goal: ActionTarget,
}

/// The target of an action. Documents are unchanged.
pub(crate) enum ActionTarget {
    Http(Box<Request>),
    StorageQueue(Value),
    ServiceBus(Value),
}

/// A request without the headers of the attempt.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) authentication: Value,
}

/// The most recently used actions.
pub(crate) struct ActionCache {
    options: Arc<Options>,
    known: Cache<String, Arc<OutboundAction>, DocumentWeighter>,
}

#[derive(Clone)]
struct DocumentWeighter;

impl Weighter<String, Arc<OutboundAction>> for DocumentWeighter {
    fn weight(&self, document: &String, _: &Arc<OutboundAction>) -> u64 {
        document.len() as u64
    }
}

impl ActionCache {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            known: Cache::with_weighter(KEPT, KEPT_BYTES, DocumentWeighter),
        }
    }

    /// The action of a document.
    pub(crate) fn get(&self, document: &str) -> Result<Arc<OutboundAction>, &'static str> {
        if let Some(action) = self.known.get(document) {
            return Ok(action);
        }
        let action = Arc::new(OutboundAction::read(document, &self.options)?);
        self.known.insert(document.to_owned(), Arc::clone(&action));
        Ok(action)
    }
}

impl OutboundAction {
    fn read(document: &str, options: &Options) -> Result<Self, &'static str> {
        let action = serde_json::from_str(document);
        let mut action: Value = action.map_err(|_| "the stored action cannot be read")?;
        let lane = |message: &str, name: &str, domain: &str| {
            let name = action[message][name].as_str();
            let url = endpoint(options, name.unwrap_or_default(), domain);
            // An action without a valid address fails when it is executed.
            Url::parse(&url).map_or(url, |url| host_and_port(&url))
        };
        let (lane, goal) = match action["type"].as_str() {
            Some("StorageQueue") => {
                let lane = lane("queueMessage", "storageAccount", queue::DOMAIN);
                (lane, ActionTarget::StorageQueue(action))
            }
            Some("ServiceBusQueue") => {
                let lane = lane("serviceBusQueueMessage", "namespace", bus::DOMAIN);
                (lane, ActionTarget::ServiceBus(action))
            }
            Some("ServiceBusTopic") => {
                let lane = lane("serviceBusTopicMessage", "namespace", bus::DOMAIN);
                (lane, ActionTarget::ServiceBus(action))
            }
            _ => {
                let request = action.get_mut("request").map(Value::take);
                let request = Request::read(request.unwrap_or_default())?;
                let lane = host_and_port(&request.url);
                (lane, ActionTarget::Http(Box::new(request)))
            }
        };
        Ok(Self { lane, goal })
    }
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(0);
    format!("{host}:{port}")
}

impl Request {
    fn read(mut request: Value) -> Result<Self, &'static str> {
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let method = Method::from_bytes(text("method").as_bytes());
        Ok(Self {
            url: Url::parse(text("uri")).map_err(|_| "the address cannot be read")?,
            method: method.map_err(|_| "the method cannot be read")?,
            headers: headers(&request),
            body: text("body").to_owned(),
            authentication: request
                .get_mut("authentication")
                .map(Value::take)
                .unwrap_or_default(),
        })
    }
}

fn headers(request: &Value) -> HeaderMap {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    fn actions() -> ActionCache {
        let mut options = Options::new(SecretKey::new("a key for tests"));
        for (name, url) in [("a", "http://h.test:81/a"), ("b", "http://h.test:81/b/")] {
            options.endpoints.insert(name.into(), url.into());
        }
        ActionCache::new(Arc::new(options))
    }

    fn lane(document: &str) -> Option<String> {
        let actions = actions();
        let action = actions.get(document).ok()?;
        let again = actions.get(document).ok()?;
        assert!(Arc::ptr_eq(&action, &again), "it was read twice");
        Some(action.lane.clone())
    }

    #[test]
    fn actions_to_one_host_and_port_share_a_lane_and_are_read_once() {
        let http = r#"{"type":"Http","request":{"method":"GET","uri":"http://h.test/a?b"}}"#;
        assert_eq!(lane(http).as_deref(), Some("h.test:80"));
        let http = r#"{"type":"Http","request":{"method":"GET","uri":"http://h.test:81/"}}"#;
        assert_eq!(lane(http).as_deref(), Some("h.test:81"));
        let queue = r#"{"type":"StorageQueue","queueMessage":{"storageAccount":"a"}}"#;
        assert_eq!(lane(queue).as_deref(), Some("h.test:81"));
        let bus = r#"{"type":"ServiceBusQueue","serviceBusQueueMessage":{"namespace":"b"}}"#;
        assert_eq!(lane(bus).as_deref(), Some("h.test:81"));
        let cloud = r#"{"type":"ServiceBusTopic","serviceBusTopicMessage":{"namespace":"n"}}"#;
        assert_eq!(lane(cloud).as_deref(), Some("n.servicebus.windows.net:443"));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let why = |document: &str| actions().get(document).err();
        assert_eq!(why("{"), Some("the stored action cannot be read"));
        assert_eq!(why("[1]"), Some("the address cannot be read"));
        let nowhere = r#"{"request":{"method":"GET","uri":"nowhere"}}"#;
        assert_eq!(why(nowhere), Some("the address cannot be read"));
        let odd = r#"{"request":{"method":"G T","uri":"http://h/"}}"#;
        assert_eq!(why(odd), Some("the method cannot be read"));
    }
}
