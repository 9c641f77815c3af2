//! Instances, events and entities as JSON.

use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso::{format_seconds, format_time};
use steadfast_durable::{
    Diagnosis, EntityView, EventKind, FailureDetails, InstanceEvent, InstanceView, LockView,
    Moment, PendingWait, Task,
};

/// A payload as JSON, or as a string if it is not JSON.
pub(super) fn payload(text: Option<&str>) -> Value {
    let Some(text) = text else {
        return Value::Null;
    };
    let read = serde_json::from_str(text);
    read.unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A moment to the second.
fn second(moment: Moment) -> String {
    let time = Timestamp(moment.seconds.saturating_mul(1000));
    format!("{}Z", format_seconds(time))
}

/// A moment to the millisecond.
fn precise(moment: Moment) -> String {
    let ms = i64::from(moment.nanos / 1_000_000);
    format_time(Timestamp(moment.seconds.saturating_mul(1000) + ms))
}

/// The status of an instance. Its input is included on request.
pub(super) fn status(overview: &InstanceView, is_input_shown: bool) -> Value {
    let input = overview.input.as_deref().filter(|_| is_input_shown);
    let failure = overview.failure.as_ref();
    let output = match (&overview.output, failure) {
        (None, Some(failure)) => json!(failure.message),
        (output, _) => payload(output.as_deref()),
    };
    json!({
        "name": overview.name,
        "instanceId": overview.instance,
        "runtimeStatus": format!("{:?}", overview.status),
        "input": payload(input),
        "customStatus": payload(overview.custom_status.as_deref()),
        "output": output,
        "createdTime": second(overview.created),
        "lastUpdatedTime": second(overview.updated),
    })
}

/// An entity in a list.
pub(super) fn entity(view: &EntityView, is_state_shown: bool) -> Value {
    let id = view.entity.strip_prefix('@').unwrap_or(&view.entity);
    let (name, key) = id.split_once('@').unwrap_or((id, ""));
    let mut shown = json!({
        "entityId": {"name": name, "key": key},
        "lastOperationTime": second(view.modified),
        "lockedBy": view.locked_by,
        "backlog": view.backlog,
    });
    if is_state_shown {
        shown["state"] = payload(view.state.as_deref());
    }
    shown
}

/// A held lock.
pub(super) fn lock(lock: &LockView) -> Value {
    json!({
        "entityId": lock.entity,
        "holder": lock.holder,
        "criticalSectionId": lock.section,
        "since": second(lock.since),
        "waiting": lock.waiting,
    })
}

/// What an instance of a task hub waits for, as a code and as a sentence.
pub(super) fn why(hub: &str, why: &Diagnosis) -> Value {
    let said = |state: &str, text: String| json!({"state": state, "text": text});
    match why {
        Diagnosis::Unknown => said("unknown", "there is no such instance".into()),
        Diagnosis::Ended(status) => said("ended", format!("it has ended: {status:?}")),
        Diagnosis::Suspended => said("suspended", "it is suspended".into()),
        Diagnosis::Starts(at) => said("scheduled", format!("it starts at {}", precise(*at))),
        Diagnosis::NoWorker { name, has_workers } => {
            said("noWorker", no_worker(hub, name, *has_workers))
        }
        Diagnosis::Queued => said("queued", "workers that have code for it are busy".into()),
        Diagnosis::Running => said("running", "a worker has it".into()),
        Diagnosis::Waits(open) if open.is_empty() => {
            said("waits", "it waits for an event from outside".into())
        }
        Diagnosis::Waits(open) => {
            let waits: Vec<_> = open.iter().map(wait).collect();
            let text = format!("it waits for {}", waits.join(", "));
            json!({"state": "waits", "text": text, "waits": waits})
        }
    }
}

/// Which worker is missing.
pub(super) fn no_worker(hub: &str, name: &str, has_workers: bool) -> String {
    if has_workers {
        return format!(
            "no worker that is connected to the task hub '{hub}' has code for '{name}'"
        );
    }
    format!("no worker is connected to the task hub '{hub}': start one that has code for '{name}'")
}

fn wait(open: &PendingWait) -> String {
    match open {
        PendingWait::Activity { name } => format!("the activity '{name}'"),
        PendingWait::Child { instance } => format!("the orchestration '{instance}'"),
        PendingWait::Timer(at) => format!("a timer at {}", precise(*at)),
        PendingWait::Call { entity, operation } => format!("'{operation}' of '{entity}'"),
        PendingWait::Lock { entity, holder } => match holder {
            Some(holder) => format!("the lock of '{entity}', which '{holder}' holds"),
            None => format!("the lock of '{entity}'"),
        },
    }
}

/// An event of a history. Payloads are included on request.
pub(super) fn event(event: &InstanceEvent, is_output_shown: bool) -> Value {
    let (kind, mut fields) = told(&event.what);
    if !is_output_shown {
        for payload in ["Input", "Result"] {
            fields.remove(payload);
        }
    }
    fields.insert("EventType".into(), kind.into());
    fields.insert("EventId".into(), event.id.into());
    fields.insert("Timestamp".into(), precise(event.at).into());
    Value::Object(fields)
}

/// The name of an event and its fields.
fn told(what: &EventKind) -> (&'static str, Map<String, Value>) {
    let (kind, fields) = match what {
        EventKind::Started(start) => ("ExecutionStarted", task(&start.task)),
        EventKind::Completed {
            status,
            result,
            failure,
        } => (
            "ExecutionCompleted",
            json!({
                "OrchestrationStatus": format!("{status:?}"),
                "Result": payload(result.as_deref()),
                "FailureDetails": failure.as_ref().map(details),
            }),
        ),
        EventKind::Terminated { input, .. } => (
            "ExecutionTerminated",
            json!({"Reason": payload(input.as_deref())}),
        ),
        EventKind::TaskScheduled(scheduled) => ("TaskScheduled", task(scheduled)),
        EventKind::TaskCompleted { task, result } => ("TaskCompleted", result_of(*task, result)),
        EventKind::TaskFailed { task, failure } => ("TaskFailed", failure_of(*task, failure)),
        EventKind::ChildCreated {
            instance,
            task: created,
        } => {
            let mut fields = task(created);
            fields["InstanceId"] = json!(instance);
            ("SubOrchestrationInstanceCreated", fields)
        }
        EventKind::ChildCompleted { task, result } => (
            "SubOrchestrationInstanceCompleted",
            result_of(*task, result),
        ),
        EventKind::ChildFailed { task, failure } => {
            ("SubOrchestrationInstanceFailed", failure_of(*task, failure))
        }
        EventKind::TimerCreated(at) => ("TimerCreated", json!({"FireAt": precise(*at)})),
        EventKind::TimerFired { timer, fire_at } => (
            "TimerFired",
            json!({"TimerId": timer, "FireAt": precise(*fire_at)}),
        ),
        EventKind::TurnStarted => ("OrchestratorStarted", json!({})),
        EventKind::TurnCompleted => ("OrchestratorCompleted", json!({})),
        EventKind::EventSent {
            instance,
            name,
            input,
        } => (
            "EventSent",
            json!({"InstanceId": instance, "Name": name, "Input": payload(input.as_deref())}),
        ),
        EventKind::EventRaised { name, input } => (
            "EventRaised",
            json!({"Name": name, "Input": payload(input.as_deref())}),
        ),
        EventKind::Suspended(reason) => ("ExecutionSuspended", json!({"Reason": reason})),
        EventKind::Resumed(reason) => ("ExecutionResumed", json!({"Reason": reason})),
        EventKind::Rewound(reason) => ("ExecutionRewound", json!({"Reason": reason})),
        EventKind::Generic(data) => ("GenericEvent", json!({"Data": data})),
        EventKind::EntitySignaled(operation) => (
            "EntityOperationSignaled",
            json!({"EntityId": operation.target, "Operation": operation.name,
                "Input": payload(operation.input.as_deref())}),
        ),
        EventKind::EntityCalled(operation) => (
            "EntityOperationCalled",
            json!({"EntityId": operation.target, "Operation": operation.name,
                "RequestId": operation.request, "Input": payload(operation.input.as_deref())}),
        ),
        EventKind::EntityCompleted {
            request, output, ..
        } => (
            "EntityOperationCompleted",
            json!({"RequestId": request, "Result": payload(output.as_deref())}),
        ),
        EventKind::EntityFailed {
            request, failure, ..
        } => (
            "EntityOperationFailed",
            json!({"RequestId": request, "FailureDetails": details(failure)}),
        ),
        EventKind::LockRequested(lock) => (
            "EntityLockRequested",
            json!({"CriticalSectionId": lock.section, "LockSet": lock.set}),
        ),
        EventKind::LockGranted { section, .. } => {
            ("EntityLockGranted", json!({"CriticalSectionId": section}))
        }
        EventKind::UnlockSent(unlock) => (
            "EntityUnlockSent",
            json!({"CriticalSectionId": unlock.section, "EntityId": unlock.target}),
        ),
    };
    match fields {
        Value::Object(fields) => (kind, fields),
        _ => (kind, Map::new()),
    }
}

fn task(task: &Task) -> Value {
    json!({
        "FunctionName": task.name,
        "Version": task.version,
        "Input": payload(task.input.as_deref()),
    })
}

fn result_of(task: i32, result: &Option<String>) -> Value {
    json!({"TaskScheduledId": task, "Result": payload(result.as_deref())})
}

fn failure_of(task: i32, failure: &FailureDetails) -> Value {
    json!({"TaskScheduledId": task, "FailureDetails": details(failure)})
}

fn details(failure: &FailureDetails) -> Value {
    json!({
        "ErrorType": failure.kind,
        "ErrorMessage": failure.message,
        "StackTrace": failure.stack,
        "InnerFailure": failure.inner.first().map(details),
        "IsNonRetriable": failure.is_final,
    })
}
