//! A data folder of the version before opens and serves.

use steadfast::Record;
use steadfast::jobs::recurrence::JobTiming;
use steadfast::{durable, events, jobs};

use crate::frozen::Frozen;

#[test]
fn a_folder_of_the_version_before_opens_and_serves_after_a_clean_stop() {
    Frozen::unpack("folder", "stopped.tar.gz").check();
}

#[test]
fn a_folder_of_the_version_before_opens_and_serves_after_a_kill() {
    Frozen::unpack("folder", "killed.tar.gz").check();
}

/// A collection stores the names of its key and value types, and opens for these only. A
/// program may store types of the library.
#[test]
fn renamed_types_keep_their_stored_names() {
    let names = [
        (durable::ActionKind::type_name(), "Deed"),
        (durable::EntityOperation::type_name(), "Operation"),
        (durable::EventKind::type_name(), "What"),
        (durable::ExecutionStart::type_name(), "Start"),
        (durable::FailureDetails::type_name(), "Failure"),
        (durable::InstanceEvent::type_name(), "Event"),
        (durable::InstanceStatus::type_name(), "Status"),
        (durable::LegacyMessage::type_name(), "Legacy"),
        (durable::OrchestrationSpan::type_name(), "Span"),
        (durable::QueuedOperation::type_name(), "Requested"),
        (durable::ReusePolicy::type_name(), "Reuse"),
        (durable::TurnAction::type_name(), "Action"),
        (durable::UnlockRequest::type_name(), "Unlock"),
        (events::AccessPolicy::type_name(), "Policy"),
        (events::BlobLease::type_name(), "Lease"),
        (events::CheckpointCondition::type_name(), "Condition"),
        (events::ConsumerGroup::type_name(), "Group"),
        (events::DeadLetter::type_name(), "Parked"),
        (events::EventHubChange::type_name(), "Change"),
        (events::EventHubDefinition::type_name(), "Definition"),
        (events::EventRetention::type_name(), "Retention"),
        (events::ProducerOptions::type_name(), "Wish"),
        (events::ProducerSequence::type_name(), "Stamp"),
        (events::PublishReceipt::type_name(), "Published"),
        (events::PutBlobRequest::type_name(), "Put"),
        (events::UploadHandle::type_name(), "Staged"),
        (events::VersionMatch::type_name(), "Match"),
        (jobs::AttemptId::type_name(), "Claim"),
        (jobs::AttemptResult::type_name(), "Ended"),
        (jobs::DeliveryRequest::type_name(), "Order"),
        (jobs::JobAction::type_name(), "Action"),
        (jobs::JobCollection::type_name(), "Collection"),
        (jobs::JobCommand::type_name(), "Ask"),
        (jobs::JobDefinition::type_name(), "Definition"),
        (jobs::JobDraft::type_name(), "Draft"),
        (jobs::JobHistoryItem::type_name(), "Item"),
        (jobs::JobHistoryStatus::type_name(), "Verdict"),
        (jobs::JobPolicy::type_name(), "Policy"),
        (jobs::JobResponse::type_name(), "Say"),
        (jobs::JobRetry::type_name(), "Retry"),
        (jobs::JobStatus::type_name(), "Status"),
        (JobTiming::type_name(), "Timing"),
        (jobs::NameRequest::type_name(), "Naming"),
        (jobs::OccurrenceSource::type_name(), "Source"),
        (jobs::Precondition::type_name(), "Expect"),
        (jobs::RunPhase::type_name(), "Phase"),
    ];
    for (name, stored) in names {
        assert_eq!(name, stored);
    }
}
