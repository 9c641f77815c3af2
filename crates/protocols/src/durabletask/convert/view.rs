//! Converts instance status and overview for clients.

use steadfast_durable::{Overview, Status};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::OrchestrationStatus;

use super::failure::failure_sent;
use super::malformed::Malformed;
use super::time::timestamp;

/// Encodes a status.
pub(crate) fn status(status: Status) -> OrchestrationStatus {
    match status {
        Status::Pending => OrchestrationStatus::Pending,
        Status::Running => OrchestrationStatus::Running,
        Status::Suspended => OrchestrationStatus::Suspended,
        Status::Completed => OrchestrationStatus::Completed,
        Status::Failed => OrchestrationStatus::Failed,
        Status::Terminated => OrchestrationStatus::Terminated,
        Status::Canceled => OrchestrationStatus::Canceled,
    }
}

/// Decodes a status; `None` is `CONTINUED_AS_NEW`, which no instance has.
pub(super) fn status_taken(number: i32) -> Result<Option<Status>, Malformed> {
    let status = OrchestrationStatus::try_from(number)
        .map_err(|_| Malformed::new(format!("there is no state {number}")))?;
    Ok(match status {
        OrchestrationStatus::Pending => Some(Status::Pending),
        OrchestrationStatus::Running => Some(Status::Running),
        OrchestrationStatus::Suspended => Some(Status::Suspended),
        OrchestrationStatus::Completed => Some(Status::Completed),
        OrchestrationStatus::Failed => Some(Status::Failed),
        OrchestrationStatus::Terminated => Some(Status::Terminated),
        OrchestrationStatus::Canceled => Some(Status::Canceled),
        OrchestrationStatus::ContinuedAsNew => None,
    })
}

/// Decodes a status filter. `None` if no instance can match it.
pub(crate) fn statuses(numbers: &[i32]) -> Result<Option<Vec<Status>>, Malformed> {
    let named = numbers.iter().map(|number| status_taken(*number));
    let named: Vec<_> = named.collect::<Result<_, _>>()?;
    let known: Vec<_> = named.into_iter().flatten().collect();
    Ok((numbers.is_empty() || !known.is_empty()).then_some(known))
}

/// Encodes an instance.
pub(crate) fn overview_shown(overview: Overview) -> wire::OrchestrationState {
    wire::OrchestrationState {
        instance_id: overview.instance,
        name: overview.name,
        version: overview.version,
        orchestration_status: status(overview.status).into(),
        scheduled_start_timestamp: overview.scheduled.map(timestamp),
        created_timestamp: Some(timestamp(overview.created)),
        last_updated_timestamp: Some(timestamp(overview.updated)),
        input: overview.input,
        output: overview.output,
        custom_status: overview.custom_status,
        failure_details: overview.failure.as_ref().map(failure_sent),
        execution_id: Some(overview.execution),
        completed_timestamp: overview.completed.map(timestamp),
        parent_instance_id: overview.parent.map(|parent| parent.instance),
        tags: overview.tags,
    }
}
