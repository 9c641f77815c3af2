//! State shared by all partitions of a processor.

use std::sync::Arc;

use futures_util::FutureExt;
use steadfast_core::id::Partition;
use steadfast_partition::{Envelope, Message};

use crate::checkpoint::CheckpointCondition;
use crate::dead_letter::DeadLetter;
use crate::error::{Error, Result};
use crate::groups::advance;
use crate::hub_partition_command::HubPartitionCommand;
use crate::hubs::{CachedHub, EventHubs};
use crate::keys::{self, folded};
use crate::processor::handler::{Handler, ProcessorError, ReceivedEvent, caught};
use crate::processor::options::ProcessorOptions;

pub(crate) struct ProcessorShared<H> {
    pub(crate) hubs: EventHubs,
    pub(crate) known: Arc<CachedHub>,
    pub(crate) group: String,
    pub(crate) options: ProcessorOptions,
    pub(crate) handler: Arc<H>,
}

impl<H: Handler> ProcessorShared<H> {
    pub(crate) fn new(
        hubs: EventHubs,
        known: Arc<CachedHub>,
        group: &str,
        options: ProcessorOptions,
        handler: Arc<H>,
    ) -> Self {
        Self {
            hubs,
            known,
            group: group.to_owned(),
            options,
            handler,
        }
    }

    /// The store partition that hosts a hub partition.
    pub(crate) fn place(&self, partition: u32) -> Partition {
        self.hubs.hosting_partition(&self.known, partition)
    }

    /// The scope of a partition's collections.
    pub(crate) fn scope(&self, partition: u32) -> String {
        let (hub, group) = (self.known.hub.id, folded(&self.group));
        format!("events/{hub}/{group}/{partition}")
    }

    /// Moves the checkpoint, as part of a commit.
    pub(crate) fn advance(&self, partition: u32, from: i64, to: (i64, i64)) -> Envelope {
        let condition = CheckpointCondition::At(from);
        let command =
            HubPartitionCommand::Advance(advance(&self.known, &self.group, to, condition));
        self.envelope(partition, &command)
    }

    /// Stores a dead letter, as part of a commit.
    pub(crate) fn park(&self, partition: u32, parked: DeadLetter) -> Envelope {
        let (hub, group) = (self.known.hub.id, folded(&self.group));
        self.envelope(
            partition,
            &HubPartitionCommand::AddDeadLetter { hub, group, parked },
        )
    }

    /// Removes a dead letter, as part of a commit.
    pub(crate) fn unpark(&self, partition: u32, sequence: i64) -> Envelope {
        let (hub, group) = (self.known.hub.id, folded(&self.group));
        let command = HubPartitionCommand::RemoveDeadLetter {
            hub,
            group,
            sequence,
        };
        self.envelope(partition, &command)
    }

    fn envelope(&self, partition: u32, command: &HubPartitionCommand) -> Envelope {
        let to = keys::hub_partition_address(&self.known.name, partition);
        Envelope::new(to, Message::encode(command))
    }

    pub(crate) async fn report(
        &self,
        partition: u32,
        operation: &'static str,
        message: String,
        attempts: u32,
    ) {
        let trouble = ProcessorError {
            partition: Some(partition),
            operation,
            message,
            attempts,
        };
        self.tell(&trouble).await;
    }

    /// Calls the error handler; a panic in it is logged.
    pub(crate) async fn tell(&self, trouble: &ProcessorError) {
        let told = self.handler.error(trouble).map(|()| Ok(()));
        if let Err(failure) = caught(told).await {
            tracing::error!(
                event = "processor.error_handler_failed",
                %failure,
                ?trouble,
                "an error handler failed",
            );
        }
    }

    /// Checks that the event hub and the group still exist: a new event hub of the same
    /// name does not count.
    pub(crate) async fn check(&self) -> Result<()> {
        let name = &self.known.hub.name;
        let now = self.hubs.known_group(name, &self.group).await?;
        if now.hub.id == self.known.hub.id {
            Ok(())
        } else {
            Err(Error::hub(name))
        }
    }
}

/// An event as a dead letter.
pub(crate) fn parked(event: &ReceivedEvent, attempts: u32, reason: &str) -> DeadLetter {
    DeadLetter {
        sequence: event.sequence,
        offset: event.offset,
        enqueued: event.time,
        key: event.key().map(str::to_owned),
        body: event.body.clone(),
        attempts,
        reason: crate::dead_letter::shortened(reason),
        parked: event.time,
    }
}
