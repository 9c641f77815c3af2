//! The services that run in partitions.
//!
//! A service is plain synchronous code: a turn, an address and a command go in, an
//! answer comes out. It keeps no state of its own between commands; its state is
//! rows. It is never called twice at a time for one partition.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::codec::Malformed;
use steadfast_core::error::Code;

use crate::address::{Address, Kind};
use crate::message::{Message, Payload};
use crate::refusal::{Halt, Refusal};
use crate::turn::Turn;

/// What runs in a partition.
pub trait Service: Send + Sync + 'static {
    /// What it is told, by callers, messages and timers.
    type Command: Message;
    /// What it answers.
    type Reply: Message;

    /// Which addresses are its own.
    fn kind(&self) -> Kind;

    /// Whether the timers of an instance ring in the order in which they are due. If
    /// not, one that is due since just now does not wait while very many others are due.
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
    ) -> Result<Answer<Self::Reply>, Halt>;
}

/// What a caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    /// This, as soon as it is durable.
    Now(R),
    /// The answer of a later turn: see [`Turn::answer`].
    Later,
}

/// The services of a node, by kind.
#[derive(Clone, Default)]
pub struct Services {
    by_kind: BTreeMap<Kind, Arc<dyn Erased>>,
}

impl Services {
    /// No service.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service; it replaces an earlier one of its kind.
    pub fn with(mut self, service: impl Service) -> Self {
        self.by_kind.insert(service.kind(), Arc::new(service));
        self
    }

    pub(crate) fn get(&self, kind: Kind) -> Option<&Arc<dyn Erased>> {
        self.by_kind.get(&kind)
    }

    /// The services whose timers need not keep an order.
    pub(crate) fn unordered(&self) -> Vec<Kind> {
        let unordered = self
            .by_kind
            .iter()
            .filter(|(_, service)| !service.keeps_timer_order());
        unordered.map(|(kind, _)| *kind).collect()
    }
}

/// A service whose types are forgotten.
pub(crate) trait Erased: Send + Sync {
    fn keeps_timer_order(&self) -> bool;

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut Payload,
    ) -> Result<Answer<Payload>, Halt>;

    /// A reply for another node.
    fn encode(&self, reply: Payload) -> Result<Bytes, Malformed>;
}

/// A message that the service cannot read.
pub(crate) const MALFORMED: Code = Code("STF-4006");

impl<S: Service> Erased for S {
    fn keeps_timer_order(&self) -> bool {
        Service::keeps_timer_order(self)
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut Payload,
    ) -> Result<Answer<Payload>, Halt> {
        let command = command
            .look::<S::Command>()
            .map_err(|_| Refusal::new(MALFORMED, format!("the message to {to} cannot be read")))?;
        Ok(match Service::handle(self, turn, to, command)? {
            Answer::Now(reply) => Answer::Now(Payload::value(reply)),
            Answer::Later => Answer::Later,
        })
    }

    fn encode(&self, reply: Payload) -> Result<Bytes, Malformed> {
        match reply {
            Payload::Bytes(bytes) | Payload::Read(bytes, _) => Ok(bytes),
            Payload::Value(value) => {
                let value: Box<dyn Any> = value;
                let reply = value.downcast_ref::<S::Reply>().ok_or(Malformed)?;
                Ok(reply.encode())
            }
        }
    }
}
