//! The `steadfast` object: extensions of Azure Scheduler.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast_core::iso;
use steadfast_jobs::recurrence::{Frequency, Gap, Recurrence};
use steadfast_jobs::{InFlight, JobPolicy, Misfire, Overlap};

use super::error::SchedulerError;
use super::value::{JsonObject, spell};

const GAPS: [(&str, Gap); 2] = [("next", Gap::Next), ("skip", Gap::Skip)];
const MISFIRES: [(&str, Misfire); 3] = [
    ("catchUp", Misfire::CatchUp),
    ("runOnce", Misfire::RunOnce),
    ("skip", Misfire::Skip),
];
const IN_FLIGHT: [(&str, InFlight); 2] = [("rerun", InFlight::Rerun), ("skip", InFlight::Skip)];
const OVERLAPS: [(&str, Overlap); 4] = [
    ("BufferOne", Overlap::BufferOne),
    ("Skip", Overlap::Skip),
    ("AllowAll", Overlap::AllowAll),
    ("CancelOther", Overlap::CancelOther),
];

/// Known members; others are rejected, since they would have no effect.
const MEMBERS: [&str; 15] = [
    "cron",
    "timeZone",
    "dstGap",
    "frequency",
    "jitter",
    "misfirePolicy",
    "catchUpWindow",
    "overlapPolicy",
    "inFlight",
    "retryBackoff",
    "maxConsecutiveFaults",
    "deadLetter",
    "pause",
    "labels",
    "timeout",
];

/// Maximum time-out of one attempt.
const LONGEST_ATTEMPT_MS: u64 = 60_000;
const LONGEST_JITTER_MS: u64 = 24 * 3_600_000;
/// Missed occurrences are enumerated inside a turn, so their range is bounded.
const LONGEST_CATCH_UP_MS: u64 = 548 * 24 * 3_600_000;

/// The parsed object and its stored form.
#[derive(Default)]
pub(crate) struct JobExtension {
    pub(crate) cron: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) gap: Gap,
    pub(crate) is_every_second: bool,
    pub(crate) jitter_ms: u64,
    pub(crate) policy: JobPolicy,
    /// Growth factor and maximum of retry intervals.
    pub(crate) backoff: Option<(f64, Option<u64>)>,
    /// The target of dead letters: occurrences whose attempts all failed.
    pub(crate) dead_letter: Option<Value>,
    pub(crate) document: Map<String, Value>,
}

impl JobExtension {
    /// Applies the frequency of the object, which stands at `path`, to a recurrence.
    ///
    /// A frequency without a recurrence is rejected: removing a recurrence later must not
    /// leave a job that runs every second.
    pub(crate) fn repeat(
        &self,
        recurrence: Option<Recurrence>,
        path: &str,
    ) -> Result<Option<Recurrence>, SchedulerError> {
        if !self.is_every_second {
            return Ok(recurrence);
        }
        let at = format!("{path}.frequency");
        if self.cron.is_some() {
            let message = "it cannot stand beside cron; a cron expression of 6 fields has seconds";
            return Err(SchedulerError::member(at, message));
        }
        let Some(recurrence) = recurrence else {
            let message = "it replaces the frequency of a recurrence, and there is none; \
                           send recurrence with its interval, or leave frequency out";
            return Err(SchedulerError::member(at, message));
        };
        Ok(Some(Recurrence {
            frequency: Frequency::Second,
            ..recurrence
        }))
    }
}

/// Parses the object.
pub(crate) fn read(object: &JsonObject<'_>, names: &Value) -> Result<JobExtension, SchedulerError> {
    let members = names.as_object().into_iter().flat_map(Map::keys);
    // Members that are added to shown jobs are ignored when a client sends them back.
    let shown = ["replication", "paused"];
    for name in members {
        if !MEMBERS.contains(&name.as_str()) && !shown.contains(&name.as_str()) {
            let message = format!("it is not known; known are {}", MEMBERS.join(", "));
            return Err(object.wrong(name, message));
        }
    }
    let mut read = JobExtension {
        cron: object.text("cron")?.map(Into::into),
        zone: object.text("timeZone")?.map(Into::into),
        gap: object.word("dstGap", &GAPS)?.unwrap_or_default(),
        ..JobExtension::default()
    };
    let second = object.word("frequency", &[("Second", ())])?;
    read.is_every_second = second.is_some();
    read.jitter_ms = bounded(object, "jitter", LONGEST_JITTER_MS)?.unwrap_or(0);
    read.policy = read_policy(object)?;
    read.backoff = read_backoff(object)?;
    read.dead_letter = object.get("deadLetter").cloned();
    read.document = document(object, &read)?;
    Ok(read)
}

fn bounded(
    object: &JsonObject<'_>,
    name: &str,
    most_ms: u64,
) -> Result<Option<u64>, SchedulerError> {
    match object.duration(name)? {
        Some(ms) if ms > most_ms => {
            let most = iso::format_duration(Duration::from_millis(most_ms));
            Err(object.wrong(name, format!("it must be {most} at most")))
        }
        ms => Ok(ms),
    }
}

fn read_policy(object: &JsonObject<'_>) -> Result<JobPolicy, SchedulerError> {
    let usual = JobPolicy::default();
    let faults = object.number_in("maxConsecutiveFaults", 1..=1_000_000)?;
    let timeout_ms = bounded(object, "timeout", LONGEST_ATTEMPT_MS)?;
    if timeout_ms == Some(0) {
        return Err(object.wrong("timeout", "it must be longer than nothing"));
    }
    Ok(JobPolicy {
        overlap: object
            .word("overlapPolicy", &OVERLAPS)?
            .unwrap_or(usual.overlap),
        misfire: object
            .word("misfirePolicy", &MISFIRES)?
            .unwrap_or(usual.misfire),
        catch_up_ms: bounded(object, "catchUpWindow", LONGEST_CATCH_UP_MS)?
            .unwrap_or(usual.catch_up_ms),
        faults: faults.map(|faults| faults as u32),
        timeout_ms,
        in_flight: object
            .word("inFlight", &IN_FLIGHT)?
            .unwrap_or(usual.in_flight),
    })
}

fn read_backoff(object: &JsonObject<'_>) -> Result<Option<(f64, Option<u64>)>, SchedulerError> {
    let Some(backoff) = object.object("retryBackoff")? else {
        return Ok(None);
    };
    let factor = backoff.get("factor").and_then(Value::as_f64);
    match factor {
        Some(factor) if (1.0..=100.0).contains(&factor) => {
            Ok(Some((factor, backoff.duration("max")?)))
        }
        _ => Err(backoff.wrong("factor", "a number from 1 to 100 is expected")),
    }
}

/// The object in canonical spelling, as stored and shown.
fn document(
    object: &JsonObject<'_>,
    read: &JobExtension,
) -> Result<Map<String, Value>, SchedulerError> {
    let mut out = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name.into(), value);
        }
    };
    let span = |ms: u64| json!(iso::format_duration(Duration::from_millis(ms)));
    put("cron", read.cron.clone().map(Value::from));
    put("timeZone", read.zone.clone().map(Value::from));
    put(
        "dstGap",
        object.get("dstGap").map(|_| spell(&GAPS, &read.gap).into()),
    );
    put("frequency", read.is_every_second.then(|| "Second".into()));
    put("jitter", object.duration("jitter")?.map(span));
    let misfire = spell(&MISFIRES, &read.policy.misfire);
    put(
        "misfirePolicy",
        object.get("misfirePolicy").map(|_| misfire.into()),
    );
    put("catchUpWindow", object.duration("catchUpWindow")?.map(span));
    let overlap = spell(&OVERLAPS, &read.policy.overlap);
    put(
        "overlapPolicy",
        object.get("overlapPolicy").map(|_| overlap.into()),
    );
    let in_flight = spell(&IN_FLIGHT, &read.policy.in_flight);
    put("inFlight", object.get("inFlight").map(|_| in_flight.into()));
    put("maxConsecutiveFaults", read.policy.faults.map(Value::from));
    put("timeout", read.policy.timeout_ms.map(span));
    if let Some((factor, max)) = read.backoff {
        let mut backoff = json!({"factor": factor});
        if let Some(max) = max {
            backoff["max"] = span(max);
        }
        put("retryBackoff", Some(backoff));
    }
    put("deadLetter", read.dead_letter.clone());
    let labels = object.texts("labels")?;
    if object.get("labels").is_some() {
        let labels: Map<_, _> = labels
            .into_iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        put("labels", Some(labels.into()));
    }
    Ok(out)
}
