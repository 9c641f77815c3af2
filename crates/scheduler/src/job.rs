//! Jobs as JSON: parsing of bodies, and responses.

use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::recurrence::{Frequency, JobTiming, OccurrencePlan, Recurrence};
use steadfast_jobs::{
    Job, JobCollection, JobDraft, JobHistoryStatus, JobId, JobRetry, RunPhase, State, Target,
};

use super::action;
use super::authorization::{self, CallerGrants};
use super::collection::Quota;
use super::context::Context;
use super::error::SchedulerError;
use super::extension::{self, JobExtension};
use super::merge::merge;
use super::recurrence;
use super::seal::{SECRETS, strip};
use super::value::{JsonObject, spell};

pub(crate) const STATES: [(&str, State); 4] = [
    ("Enabled", State::Enabled),
    ("Disabled", State::Disabled),
    ("Faulted", State::Faulted),
    ("Completed", State::Completed),
];

pub(crate) const VERDICTS: [(&str, JobHistoryStatus); 3] = [
    ("Completed", JobHistoryStatus::Completed),
    ("Failed", JobHistoryStatus::Failed),
    ("Postponed", JobHistoryStatus::Postponed),
];

const MOST_BYTES: usize = 16 * 1024;
/// Number of occurrences that are examined for the minimum distance.
const LOOK_AHEAD: usize = 1500;

/// The stored properties of a job.
pub(crate) fn stored(job: &Job) -> Value {
    serde_json::from_str(&job.definition.document).unwrap_or_else(|_| json!({}))
}

/// The properties after a PUT.
pub(crate) fn replaced(body: &Value, known: Option<&Value>) -> Result<Value, SchedulerError> {
    let mut wanted = properties(body)?.clone();
    let extension = known.and_then(|known| known.get("steadfast"));
    if let (Some(map), Some(extension)) = (wanted.as_object_mut(), extension)
        && !map.contains_key("steadfast")
    {
        // Clients of Azure Scheduler do not send back unknown members.
        map.insert("steadfast".into(), extension.clone());
    }
    Ok(wanted)
}

/// The properties after a PATCH.
pub(crate) fn patched(body: &Value, known: &Value) -> Result<Value, SchedulerError> {
    let change = properties(body)?;
    let mut wanted = known.clone();
    merge(&mut wanted, change);
    Ok(wanted)
}

fn properties(body: &Value) -> Result<&Value, SchedulerError> {
    let properties = body.get("properties").unwrap_or(&Value::Null);
    if !properties.is_object() {
        return Err(SchedulerError::member("properties", "it is required"));
    }
    if properties.to_string().len() > MOST_BYTES {
        let message = format!("the job is larger than {MOST_BYTES} bytes");
        return Err(SchedulerError::member("properties", message));
    }
    no_sealed(properties, "properties")?;
    Ok(properties)
}

/// Rejects sealed secrets in a body: only the server writes them.
fn no_sealed(value: &Value, path: &str) -> Result<(), SchedulerError> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(name, value)| {
            let path = format!("{path}.{name}");
            if SECRETS.contains(&name.as_str()) && value.is_object() {
                return Err(SchedulerError::member(path, "a text is expected"));
            }
            no_sealed(value, &path)
        }),
        Value::Array(list) => list.iter().try_for_each(|value| no_sealed(value, path)),
        _ => Ok(()),
    }
}

/// Validates properties and builds a draft.
pub(crate) async fn draft(
    context: &Context,
    grants: &CallerGrants,
    id: &JobId,
    wanted: &Value,
    known: Option<&Value>,
    home: &JobCollection,
) -> Result<JobDraft, SchedulerError> {
    let now = context.clock.now();
    let object = JsonObject::new(wanted, "properties")?;
    let extension = read_extension(&object, context)?;
    let start = object.time("startTime")?;
    if start.is_some_and(|start| start > action::latest_start(now)) {
        return Err(object.wrong("startTime", "it is more than 18 months ahead"));
    }
    let repeat = read_recurrence(context, &object, &extension, known, now)?;
    let timing = JobTiming {
        start: start.map(|start| start.0),
        anchored: now.0,
        recurrence: repeat,
        cron: extension.cron.clone(),
        zone: extension.zone.clone(),
        gap: extension.gap,
        jitter_ms: extension.jitter_ms,
    };
    check_timing(&timing, now, &Quota::of(context, home))?;
    let (main, error) = read_actions(context, id, &object, known)?;
    let inside = [
        main.get("internal"),
        error.as_ref().and_then(|error| error.get("internal")),
    ];
    let letters = extension
        .dead_letter
        .as_ref()
        .filter(|target| target.is_object());
    for target in inside.into_iter().flatten().chain(letters) {
        authorization::check(grants, target)?;
    }
    let dead_letter = dead_letter(context, id, &extension, known).await?;
    let mut document = Map::new();
    if let Some(start) = start {
        document.insert("startTime".into(), iso::format_time(start).into());
    }
    let mut shown = main.clone();
    if let Some(error) = &error {
        shown.insert("errorAction".into(), error.clone().into());
    }
    document.insert("action".into(), shown.into());
    if let Some(recurrence) = &timing.recurrence {
        document.insert("recurrence".into(), recurrence::show(recurrence));
    }
    if !extension.document.is_empty() {
        document.insert("steadfast".into(), extension.document.clone().into());
    }
    let main: Value = main.into();
    let usual = action::grown(JobRetry::default(), extension.backoff);
    let main_retry = action::retry(&main, extension.backoff).unwrap_or(usual);
    let at = "properties.action";
    let error = match error.map(Value::from) {
        Some(error) => {
            // The retry policy of the main action applies to both, unless there is another.
            let retry = action::retry(&error, extension.backoff).unwrap_or(main_retry);
            let at = format!("{at}.errorAction");
            Some(action::action(context, id, &error, retry, &at).await?)
        }
        None => None,
    };
    Ok(JobDraft {
        id: id.clone(),
        document: Value::from(document).to_string(),
        timing,
        main: action::action(context, id, &main, main_retry, at).await?,
        error,
        dead_letter,
        policy: extension.policy,
        state: read_state(&object)?,
    })
}

fn read_extension(
    object: &JsonObject<'_>,
    context: &Context,
) -> Result<JobExtension, SchedulerError> {
    let Some(found) = object.object("steadfast")? else {
        return Ok(JobExtension::default());
    };
    let names = object.get("steadfast").unwrap_or(&Value::Null);
    let read = extension::read(&found, names)?;
    if read.is_every_second && !context.settings.allow_seconds {
        let message = "this server allows no job that runs every second";
        return Err(found.wrong("frequency", message));
    }
    Ok(read)
}

fn read_state(object: &JsonObject<'_>) -> Result<Option<State>, SchedulerError> {
    match object.word("state", &STATES)? {
        Some(state) if state.is_final() => {
            Err(object.wrong("state", "it may be set to Enabled or Disabled only"))
        }
        state => Ok(state),
    }
}

fn read_recurrence(
    context: &Context,
    object: &JsonObject<'_>,
    extension: &JobExtension,
    known: Option<&Value>,
    now: Timestamp,
) -> Result<Option<Recurrence>, SchedulerError> {
    let at = "properties.steadfast";
    let Some(found) = object.object("recurrence")? else {
        return extension.repeat(None, at);
    };
    // A stored recurrence may have ended by now.
    let is_known = known.is_some_and(|known| known.get("recurrence") == object.get("recurrence"));
    let after = (!is_known).then_some(now);
    let repeat = recurrence::read(&found, after, context.settings.allow_seconds)?;
    extension.repeat(Some(repeat), at)
}

/// Checks that there is an occurrence, and that the job does not run too often.
fn check_timing(timing: &JobTiming, now: Timestamp, quota: &Quota) -> Result<(), SchedulerError> {
    let plan = OccurrencePlan::new(timing)?;
    if plan.first(now).is_none() {
        let message = "no time within ten years fits the recurrence";
        return Err(SchedulerError::member("properties.recurrence", message));
    }
    let Some(least_ms) = quota.least_gap_ms.filter(|_| plan.is_recurring()) else {
        return Ok(());
    };
    let smallest = plan.smallest_gap_ms(now, LOOK_AHEAD);
    let step = timing
        .recurrence
        .as_ref()
        .filter(|_| timing.cron.is_none())
        .map(step_ms);
    let is_often = |gap: i64| gap < least_ms;
    if smallest.is_some_and(is_often) || step.is_some_and(is_often) {
        let message = "the job runs more often than the collection's quota (maxRecurrence) allows";
        return Err(SchedulerError::conflict(message).with_target("properties.recurrence"));
    }
    Ok(())
}

fn step_ms(recurrence: &Recurrence) -> i64 {
    let unit = match recurrence.frequency {
        Frequency::Second => 1000,
        Frequency::Minute => 60_000,
        Frequency::Hour => 3_600_000,
        Frequency::Day => 86_400_000,
        Frequency::Week => 7 * 86_400_000,
        Frequency::Month => 30 * 86_400_000,
    };
    unit * i64::from(recurrence.interval)
}

type ReadAction = Map<String, Value>;

fn read_actions(
    context: &Context,
    id: &JobId,
    object: &JsonObject<'_>,
    known: Option<&Value>,
) -> Result<(ReadAction, Option<ReadAction>), SchedulerError> {
    let found = object.object("action")?;
    let found = found.ok_or_else(|| object.wrong("action", "it is required"))?;
    let known = known.map(|known| &known["action"]);
    let main = action::read(context, id, &found, known)?;
    let error = found.object("errorAction")?.map(|error| {
        let known = known.map(|known| &known["errorAction"]);
        action::read(context, id, &error, known)
    });
    Ok((main, error.transpose()?))
}

/// A dead letter is a POST to an address, or goes to a target inside the server.
async fn dead_letter(
    context: &Context,
    job: &JobId,
    extension: &JobExtension,
    known: Option<&Value>,
) -> Result<Option<Target>, SchedulerError> {
    let at = "properties.steadfast.deadLetter";
    match &extension.dead_letter {
        None => Ok(None),
        Some(Value::String(uri)) => {
            let url = reqwest::Url::parse(uri).ok().filter(|uri| uri.has_host());
            if let Some(url) = &url
                && known.is_none_or(|known| known["steadfast"]["deadLetter"] != **uri)
            {
                let judged = context.egress.judge_literal(url);
                judged.map_err(|why| SchedulerError::member(at, why))?;
            }
            let kind = match url {
                Some(uri) if uri.scheme() == "http" => "Http",
                Some(uri) if uri.scheme() == "https" => "Https",
                _ => {
                    return Err(SchedulerError::member(
                        at,
                        "an address with http:// or https:// is expected",
                    ));
                }
            };
            let request = json!({"uri": uri, "method": "POST"});
            let action = json!({"type": kind, "request": request});
            Ok(Some(Target::Outside(action.to_string())))
        }
        Some(internal) => {
            let target = context.internal.resolve(job, internal).await;
            target
                .map(Some)
                .map_err(|why| SchedulerError::member(at, why))
        }
    }
}

/// The JSON of a job, in the caller's spelling of its id.
pub(crate) fn show(id: &JobId, job: &Job) -> Value {
    let mut properties = stored(job);
    strip(&mut properties);
    let status = &job.status;
    properties["state"] = spell(&STATES, &status.state).into();
    let mut shown = json!({
        "executionCount": status.executions,
        "failureCount": status.failures,
        "faultedCount": status.faults,
    });
    let time = |ms: i64| Value::from(iso::format_time(Timestamp(ms)));
    if let Some(last) = status.last_execution {
        shown["lastExecutionTime"] = time(last);
    }
    if let Some(next) = status.next {
        shown["nextExecutionTime"] = time(next);
    }
    properties["status"] = shown;
    if let Some(reason) = &status.paused {
        properties["steadfast"]["pause"] = json!({"reason": reason});
    }
    let name = format!("{}/{}", id.collection.name, id.name);
    json!({
        "id": super::path::job_id(id),
        "type": "Microsoft.Scheduler/jobCollections/jobs",
        "name": name,
        "properties": properties,
    })
}

/// .NET ticks at the end of time, from which history ids count down.
const LAST_TICK: i64 = 3_155_378_975_999_999_999;
/// .NET ticks at 1970.
const TICKS_1970: i64 = 621_355_968_000_000_000;

/// One item of a job's history.
pub(crate) fn show_item(id: &JobId, item: &steadfast_jobs::JobHistoryItem) -> Value {
    let ticks = TICKS_1970 + item.started.saturating_mul(10_000);
    // Later items of the same time also come first.
    let rank = u64::MAX - item.number;
    let own = format!("{:020}:{rank:020}", LAST_TICK - ticks);
    let time = |ms: i64| iso::format_time(Timestamp(ms));
    let action = match item.phase {
        RunPhase::Main => "MainAction",
        RunPhase::Error | RunPhase::DeadLetter => "ErrorAction",
    };
    json!({
        "id": format!("{}/history/{own}", super::path::job_id(id)),
        "type": "Microsoft.Scheduler/jobCollections/jobs/history",
        "name": format!("{}/{}/{own}", id.collection.name, id.name),
        "properties": {
            "startTime": time(item.started),
            "endTime": time(item.ended),
            "expectedExecutionTime": time(item.expected),
            "actionName": action,
            "status": spell(&VERDICTS, &item.verdict),
            "message": item.message,
            "retryCount": item.retry,
            "repeatCount": item.repeat,
        },
    })
}
