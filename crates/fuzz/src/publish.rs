//! Events by plain HTTP.

use std::sync::Arc;

use axum::http::{HeaderValue, Method};
use steadfast_eventhubs::publish::routes;
use steadfast_wire::sas;

use crate::amqp::{self, HUB, KEY, KEY_NAME, LATER};
use crate::connection::ClientBehavior;
use crate::http::{self, Web};
use crate::node::MemoryNode;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::settle;

/// The first byte of an input selects what the rest is.
mod mode {
    /// The bytes of a connection. Without it: records, each one request.
    pub(super) const RAW: u8 = 1;
    /// No proof is added to the requests of the records.
    pub(super) const UNPROVEN: u8 = 2;
}

pub(crate) struct PublishSession {
    web: Web,
    _node: MemoryNode,
}

impl Session for PublishSession {
    const NAME: &'static str = "publish";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let (context, node) = amqp::start().await;
        let clock = Arc::clone(&context.clock);
        Self {
            web: Web::new(routes(context), &clock),
            _node: node,
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        if mode & mode::RAW != 0 {
            return self.web.say(rest, ClientBehavior::default()).await;
        }
        for record in records::split(rest) {
            self.ask(record, mode & mode::UNPROVEN == 0).await;
            settle().await;
        }
    }

    async fn answers(&mut self) {
        let good = http::record(&Method::POST, &format!("/{HUB}/messages"), "good");
        assert_eq!(self.ask(&good, true).await, Some(201));
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

impl PublishSession {
    /// Sends a record as a request, and returns the status of the response.
    async fn ask(&self, record: &[u8], is_proven: bool) -> Option<u16> {
        let mut request = http::request(record, str::to_owned)?;
        if is_proven {
            let token = sas::token(&format!("https://localhost/{HUB}"), LATER, KEY_NAME, KEY);
            let token = HeaderValue::from_str(&token).ok()?;
            request.headers_mut().insert("authorization", token);
        }
        let answer = self.web.ask(request).await?;
        Some(answer.status.as_u16())
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let post = |line: &str, headers: &[(&str, &str)], body: &str| {
        http::record_with(&Method::POST, line, headers, body.as_bytes())
    };
    let batch = ("content-type", "application/vnd.microsoft.servicebus.json");
    let many = r#"[{"Body":"one","UserProperties":{"a":"text","b":1,"c":true,"d":1.5}},
        {"Body":"two","BrokerProperties":{"PartitionKey":"key","CorrelationId":"7"}}]"#;
    let broker = (
        "BrokerProperties",
        r#"{"PartitionKey":"key","MessageId":"m","TimeToLive":"5"}"#,
    );
    let records = [
        post(
            "/houses/messages?timeout=60&api-version=2014-01",
            &[broker],
            "{}",
        ),
        post("/houses/messages", &[batch], many),
        post(
            "/houses/partitions/1/messages",
            &[("own", "\"text\""), ("n", "12")],
            "x",
        ),
        post(
            "/houses/publishers/meter/messages",
            &[("content-encoding", "gzip")],
            "x",
        ),
        post(
            "/absent/messages",
            &[("content-type", "text/plain; charset=x")],
            "",
        ),
    ];
    let raw = b"POST /houses/messages HTTP/1.1\r\nhost: localhost\r\n\
        authorization: SharedAccessSignature sr=a&sig=b&se=1&skn=c\r\ncontent-length: 1\r\n\r\nx";
    let mut seeds: Vec<_> = records
        .iter()
        .map(|record| records::with_mode(0, record))
        .collect();
    seeds.push(records::with_mode(0, &records::join(&records)));
    seeds.push(records::with_mode(mode::UNPROVEN, &records[0]));
    seeds.push(records::with_mode(mode::RAW, raw));
    seeds
}
