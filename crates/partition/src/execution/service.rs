//! The services that run in partitions.
//!
//! A service is plain synchronous code: a turn, an address and a command go in, an
//! answer comes out. It keeps no state between commands; its state is rows. It never
//! runs twice at a time for one partition.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::codec::DecodeError;
use steadfast_core::error::Code;

use crate::execution::service_error::{ServiceError, TurnError};
use crate::execution::turn::Turn;
use crate::ingress::address::{Address, ServiceKind};
use crate::ingress::message::{Message, MessagePayload};

/// A service that runs in partitions.
pub trait Service: Send + Sync + 'static {
    /// Its commands, from callers, messages and timers.
    type Command: Message;
    /// Its response to a caller.
    type Response: Message;

    /// The kind in the addresses of its instances.
    fn kind(&self) -> ServiceKind;

    /// Whether the timers of an instance fire in the order of their due times. If not,
    /// a timer that has just become due does not wait while very many others are due.
    fn keeps_timer_order(&self) -> bool {
        true
    }

    /// Handles one command. It may run several times for one command, when rows
    /// have to be loaded first; only the last run counts. It must not panic on rows
    /// that do not fit together: an owner that has lost its partition, and does not
    /// know it yet, may read rows of its successor. Nothing of such a turn is ever
    /// committed.
    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &Self::Command,
    ) -> Result<TurnOutcome<Self::Response>, TurnError>;
}

/// When a caller gets its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome<R> {
    /// Now: this answer, as soon as the commit is durable.
    Now(R),
    /// Later: another turn answers, see [`Turn::answer`].
    Later,
}

/// The services of a node, by kind.
#[derive(Clone, Default)]
pub struct Services {
    by_kind: BTreeMap<ServiceKind, Arc<dyn ErasedService>>,
}

impl Services {
    /// No service.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service, replacing an earlier one of its kind.
    pub fn with(mut self, service: impl Service) -> Self {
        self.by_kind.insert(service.kind(), Arc::new(service));
        self
    }

    pub(crate) fn get(&self, kind: ServiceKind) -> Option<&Arc<dyn ErasedService>> {
        self.by_kind.get(&kind)
    }

    /// The services whose timers need not keep an order.
    pub(crate) fn unordered(&self) -> Vec<ServiceKind> {
        let unordered = self
            .by_kind
            .iter()
            .filter(|(_, service)| !service.keeps_timer_order());
        unordered.map(|(kind, _)| *kind).collect()
    }
}

/// A service with erased types.
pub(crate) trait ErasedService: Send + Sync {
    fn keeps_timer_order(&self) -> bool;

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut MessagePayload,
    ) -> Result<TurnOutcome<MessagePayload>, TurnError>;

    /// Encodes a reply for another node.
    fn encode(&self, reply: MessagePayload) -> Result<Bytes, DecodeError>;
}

/// The code for a message that the service cannot decode.
pub(crate) const MALFORMED: Code = Code("STF-4006");

impl<S: Service> ErasedService for S {
    fn keeps_timer_order(&self) -> bool {
        Service::keeps_timer_order(self)
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut MessagePayload,
    ) -> Result<TurnOutcome<MessagePayload>, TurnError> {
        let command = command.look::<S::Command>().map_err(|_| {
            ServiceError::new(MALFORMED, format!("the message to {to} cannot be read"))
        })?;
        Ok(match Service::handle(self, turn, to, command)? {
            TurnOutcome::Now(reply) => TurnOutcome::Now(MessagePayload::value(reply)),
            TurnOutcome::Later => TurnOutcome::Later,
        })
    }

    fn encode(&self, reply: MessagePayload) -> Result<Bytes, DecodeError> {
        match reply {
            MessagePayload::Bytes(bytes) | MessagePayload::Read(bytes, _) => Ok(bytes),
            MessagePayload::Value(value) => {
                let value: Box<dyn Any> = value;
                let reply = value.downcast_ref::<S::Response>().ok_or(DecodeError)?;
                Ok(reply.encode())
            }
        }
    }
}
