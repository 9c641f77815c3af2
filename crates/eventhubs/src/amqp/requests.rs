//! Requests to `$cbs` and `$management`, and their replies.
//!
//! A reply goes to the link that its request names, which sends it on credit.

use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use steadfast_net::access::AccessError;
use steadfast_wire::amqp::address;
use steadfast_wire::amqp::condition;
use steadfast_wire::amqp::management::{self, EventHubDescription, PartitionDescription};
use steadfast_wire::amqp::request::{self, Request, ResponseStatus};
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::write;

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::context::Context;
use super::link::{AmqpLink, Kind, ManagementNode};
use super::permit::{self, TokenPermit};
use super::session::IncomingDelivery;
use super::work::{NodeRequest, WorkCompletion};

impl AmqpConnection {
    pub(super) fn on_request(
        &mut self,
        link: u64,
        desk: ManagementNode,
        from: &IncomingDelivery,
        message: &[u8],
    ) {
        let Some(channel) = self.links.get(&link).map(|link| link.channel) else {
            return;
        };
        let request = match Request::read(message) {
            Ok(request) => request,
            // It has no message id to reply to.
            Err(error) => return self.detach(link, &error.into()),
        };
        let asked = NodeRequest {
            link,
            delivery: from.delivery,
            settled: from.settled,
            node: desk,
            channel,
            reply_to: request.reply_to.map(str::to_owned),
            id: request.id.bytes().to_vec(),
        };
        match desk {
            ManagementNode::Cbs => self.put_token(asked, &request),
            ManagementNode::Management => self.read(asked, &request),
        }
    }

    fn put_token(&mut self, asked: NodeRequest, request: &Request<'_>) {
        let (Some("put-token"), Some(audience), Some(token)) =
            (request.operation, request.name, request.body)
        else {
            let fault = Condition::new(condition::ARGUMENT, "not a put-token with name and token");
            let message = refusal(&asked, &fault);
            return self.on_answer(&asked, message);
        };
        let context = Arc::clone(&self.context);
        let kind = request.kind.unwrap_or("").to_owned();
        let (audience, token) = (audience.to_owned(), token.to_owned());
        self.work.push(Box::pin(async move {
            tokio::time::sleep(limits::AMQP_REPLY_PAUSE).await;
            let result = permit::verify(&context, &kind, &token, &audience).await;
            WorkCompletion::Token {
                request: asked,
                audience,
                result,
            }
        }));
    }

    pub(super) fn on_token(
        &mut self,
        asked: &NodeRequest,
        audience: &str,
        result: Result<TokenPermit, AccessError>,
    ) {
        let message = match result.and_then(|permit| self.current(permit)) {
            Ok(permit) => {
                let is_policy = matches!(permit, TokenPermit::Policy { .. });
                self.tokens.put(audience, permit);
                if is_policy {
                    self.watch_policies(None);
                }
                accepted(asked)
            }
            Err(denied) => {
                self.context.refused(&denied);
                refusal(asked, &denied.into())
            }
        };
        self.on_answer(asked, message);
    }

    fn read(&mut self, asked: NodeRequest, request: &Request<'_>) {
        let hub = request.name.unwrap_or("").to_owned();
        let now = self.context.clock.now();
        let wanted = match (request.operation, request.kind, request.partition) {
            (Some("READ"), Some(management::HUB), _) => Ok(None),
            (Some("READ"), Some(management::PARTITION), Some(partition)) => {
                Ok(Some(partition.to_owned()))
            }
            _ => Err(Condition::new(
                condition::NOT_IMPLEMENTED,
                "only READ of an event hub or of a partition is known",
            )),
        };
        // A token in the request replaces those of the connection, which may be older.
        let token = request.security_token.map(str::to_owned);
        let allowed = if self.context.access.is_some() && token.is_none() {
            self.tokens.allow_asking(&hub, now)
        } else {
            Ok(())
        };
        let audience = format!("amqps://{}/{hub}", self.host);
        let context = Arc::clone(&self.context);
        self.work.push(Box::pin(async move {
            tokio::time::sleep(limits::AMQP_REPLY_PAUSE).await;
            let allowed = match token {
                Some(token) => permit::verify_asking(&context, &token, &audience, &hub).await,
                None => allowed,
            };
            let told = match (allowed, wanted) {
                (Err(denied), _) => {
                    context.refused(&denied);
                    Err(denied.into())
                }
                (Ok(()), Ok(None)) => tell_hub(&context, &asked, &hub).await,
                (Ok(()), Ok(Some(partition))) => {
                    tell_partition(&context, &asked, &hub, &partition).await
                }
                (Ok(()), Err(fault)) => Err(fault),
            };
            let message = told.unwrap_or_else(|fault| refusal(&asked, &fault));
            WorkCompletion::Answer {
                request: asked,
                message,
            }
        }));
    }

    pub(super) fn on_answer(&mut self, asked: &NodeRequest, message: Vec<u8>) {
        // First: a client may expect the reply only after its request was accepted.
        self.settle(asked.link, asked.delivery, asked.settled);
        self.flush_accepted();
        let Some(id) = self.way_back(asked) else {
            tracing::debug!(event = "amqp.no_reply_link", reply_to = asked.reply_to);
            return;
        };
        let Some(Kind::Replies(_, _, replies)) = self.links.get_mut(&id).map(|link| &mut link.kind)
        else {
            return;
        };
        if replies.waiting.len() >= limits::AMQP_REPLIES {
            let words = "too many replies wait for credit";
            return self.detach(id, &Condition::new(condition::RESOURCE_LIMIT, words));
        }
        if self.reply_bytes + message.len() > limits::AMQP_REPLY_BYTES {
            let words = "the replies that wait for credit are too large";
            return self.detach(id, &Condition::new(condition::RESOURCE_LIMIT, words));
        }
        self.reply_bytes += message.len();
        replies.waiting.push_back(message);
        self.ready.push_back(id);
    }

    /// The link for a reply: the one that the request names by address or by name;
    /// otherwise the only one of that node on the same session.
    fn way_back(&self, asked: &NodeRequest) -> Option<u64> {
        let mut links = self.links.iter();
        let found = links.find(|(_, link)| match takes(link, asked.node) {
            Some(address) => match &asked.reply_to {
                Some(name) => address == Some(name) || *link.name == **name,
                None => link.channel == asked.channel,
            },
            None => false,
        });
        found.map(|(id, _)| *id)
    }
}

/// The address of a reply link of a node.
fn takes(link: &AmqpLink, desk: ManagementNode) -> Option<Option<&String>> {
    match &link.kind {
        Kind::Replies(own, address, _) if *own == desk => Some(address.as_ref()),
        _ => None,
    }
}

const OK: ResponseStatus<'static> = ResponseStatus {
    code: 200,
    description: "OK",
    condition: None,
};

async fn tell_hub(
    context: &Context,
    asked: &NodeRequest,
    name: &str,
) -> Result<Vec<u8>, Condition> {
    let hub = context.hubs.get(name).await?;
    let told = EventHubDescription {
        name: &hub.name,
        created_ms: hub.created.0,
        partitions: hub.partitions,
    };
    Ok(reply(asked, &OK, |out| told.write(out)))
}

async fn tell_partition(
    context: &Context,
    asked: &NodeRequest,
    name: &str,
    partition: &str,
) -> Result<Vec<u8>, Condition> {
    let hub = context.hubs.get(name).await?;
    let number = address::number(partition);
    let found = context.hubs.partition(name, number).await?;
    let Timestamp(last_enqueued_ms) = found.last_time;
    let told = PartitionDescription {
        hub: &hub.name,
        partition,
        first_sequence: if found.is_empty {
            -1
        } else {
            found.first_sequence
        },
        last_sequence: found.last_sequence,
        last_offset: &found.last_offset.to_string(),
        last_enqueued_ms,
        empty: found.is_empty,
    };
    Ok(reply(asked, &OK, |out| told.write(out)))
}

fn accepted(asked: &NodeRequest) -> Vec<u8> {
    let status = ResponseStatus {
        code: 202,
        description: "Accepted",
        condition: None,
    };
    reply(asked, &status, write::null)
}

fn refusal(asked: &NodeRequest, fault: &Condition) -> Vec<u8> {
    let status = ResponseStatus {
        code: fault.status(),
        description: &fault.description,
        condition: Some(fault.condition),
    };
    reply(asked, &status, write::null)
}

fn reply(
    asked: &NodeRequest,
    status: &ResponseStatus<'_>,
    body: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::new();
    let id = EncodedValue::new(&asked.id).unwrap_or(EncodedValue::NULL);
    request::write_reply(&mut out, id, status, body);
    out
}
