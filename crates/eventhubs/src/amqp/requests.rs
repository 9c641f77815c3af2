//! Requests to `$cbs` and `$management`.

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
use super::link::{IncomingDelivery, ManagementNode};
use super::permit::{self, TokenPermit};
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
