//! Converts instance status and overview for clients.

use steadfast_durable::{InstanceStatus, InstanceView};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::OrchestrationStatus;

use super::error::ConvertError;
use super::failure::encode_failure;
use super::time::timestamp;

/// Encodes a status.
pub fn status(status: InstanceStatus) -> OrchestrationStatus {
    match status {
        InstanceStatus::Pending => OrchestrationStatus::Pending,
        InstanceStatus::Running => OrchestrationStatus::Running,
        InstanceStatus::Suspended => OrchestrationStatus::Suspended,
        InstanceStatus::Completed => OrchestrationStatus::Completed,
        InstanceStatus::Failed => OrchestrationStatus::Failed,
        InstanceStatus::Terminated => OrchestrationStatus::Terminated,
        InstanceStatus::Canceled => OrchestrationStatus::Canceled,
    }
}

/// Decodes a status; `None` is `CONTINUED_AS_NEW`, which no instance has.
pub(super) fn decode_status(number: i32) -> Result<Option<InstanceStatus>, ConvertError> {
    let status = OrchestrationStatus::try_from(number)
        .map_err(|_| ConvertError::new(format!("there is no state {number}")))?;
    Ok(match status {
        OrchestrationStatus::Pending => Some(InstanceStatus::Pending),
        OrchestrationStatus::Running => Some(InstanceStatus::Running),
        OrchestrationStatus::Suspended => Some(InstanceStatus::Suspended),
        OrchestrationStatus::Completed => Some(InstanceStatus::Completed),
        OrchestrationStatus::Failed => Some(InstanceStatus::Failed),
        OrchestrationStatus::Terminated => Some(InstanceStatus::Terminated),
        OrchestrationStatus::Canceled => Some(InstanceStatus::Canceled),
        OrchestrationStatus::ContinuedAsNew => None,
    })
}

/// Decodes a status filter. `None` if no instance can match it.
pub fn decode_statuses(numbers: &[i32]) -> Result<Option<Vec<InstanceStatus>>, ConvertError> {
    let named = numbers.iter().map(|number| decode_status(*number));
    let named: Vec<_> = named.collect::<Result<_, _>>()?;
    let known: Vec<_> = named.into_iter().flatten().collect();
    Ok((numbers.is_empty() || !known.is_empty()).then_some(known))
}

/// Encodes an instance.
pub fn encode_overview(overview: InstanceView) -> wire::OrchestrationState {
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
        failure_details: overview.failure.as_ref().map(encode_failure),
        execution_id: Some(overview.execution),
        completed_timestamp: overview.completed.map(timestamp),
        parent_instance_id: overview.parent.map(|parent| parent.instance),
        tags: overview.tags,
    }
}
