//! Job collections as JSON, and the quotas of their SKUs.

use serde_json::{Map, Value, json};
use steadfast_jobs::recurrence::Frequency;
use steadfast_jobs::{CollectionDraft, CollectionId, JobCollection, SweepKind};

use super::context::{Context, JobPlacement};
use super::error::SchedulerError;
use super::home::{self, JobHome};
use super::merge::merge;
use super::path;
use super::recurrence::FREQUENCIES;
use super::value::{JsonObject, spell};

/// Name, maximum number of jobs, minimum recurrence in minutes.
const SKUS: [(&str, u64, i64); 4] = [
    ("Standard", 50, 1),
    ("Free", 5, 60),
    ("P10Premium", 50, 1),
    ("P20Premium", 1000, 1),
];

/// The quota of a collection.
pub(crate) struct Quota {
    pub(crate) least_gap_ms: Option<i64>,
}

impl Quota {
    pub(crate) fn of(context: &Context, home: &JobCollection) -> Self {
        let document: Value = serde_json::from_str(&home.document).unwrap_or_default();
        let quota = &document["properties"]["quota"]["maxRecurrence"];
        let own = JsonObject::new(quota, "")
            .ok()
            .and_then(|quota| gap_ms(&quota).ok().flatten());
        let sku = document["properties"]["sku"]["name"].as_str();
        let sku = SKUS
            .iter()
            .find(|(name, ..)| Some(*name) == sku)
            .unwrap_or(&SKUS[0]);
        let usual = context.settings.enforce_quotas.then_some(sku.2 * 60_000);
        Self {
            least_gap_ms: own.or(usual),
        }
    }
}

/// The minimum distance of occurrences by `maxRecurrence`.
fn gap_ms(object: &JsonObject<'_>) -> Result<Option<i64>, SchedulerError> {
    let Some(frequency) = object.word("frequency", &FREQUENCIES)? else {
        return Ok(None);
    };
    let interval = object.number_in("interval", 1..=100_000)?.unwrap_or(1);
    let unit = match frequency {
        Frequency::Second => 1000,
        Frequency::Minute => 60_000,
        Frequency::Hour => 3_600_000,
        Frequency::Day => 86_400_000,
        Frequency::Week => 7 * 86_400_000,
        Frequency::Month => 30 * 86_400_000,
    };
    Ok(Some(unit * interval))
}

/// The stored document of a collection.
pub(crate) fn stored(collection: &JobCollection) -> Value {
    serde_json::from_str(&collection.document).unwrap_or_else(|_| json!({}))
}

/// The document after a PATCH.
pub(crate) fn patched(body: &Value, known: &Value) -> Value {
    let mut wanted = known.clone();
    merge(&mut wanted, body);
    wanted
}

/// Checks a body and makes a draft of it.
pub(crate) fn draft(
    context: &Context,
    home: Option<&dyn JobHome>,
    id: &CollectionId,
    body: &Value,
) -> Result<CollectionDraft, SchedulerError> {
    let object = JsonObject::new(body, "")?;
    let nothing = json!({});
    let properties = body.get("properties").filter(|value| !value.is_null());
    let properties = JsonObject::new(properties.unwrap_or(&nothing), "properties")?;
    let sku = properties.object("sku")?;
    let names = SKUS.map(|(name, most, minutes)| (name, (name, most, minutes)));
    let sku = sku
        .map(|sku| sku.word("name", &names))
        .transpose()?
        .flatten();
    let (sku, most, minutes) = sku.unwrap_or(SKUS[0]);
    let (quota, most_jobs) = read_quota(context, &properties, most, minutes)?;
    let mut document = Map::new();
    if let Some(place) = location(context, home, object.text("location")?)? {
        document.insert("location".into(), place.into());
    }
    let tags: Map<_, _> = object
        .texts("tags")?
        .into_iter()
        .map(|(k, v)| (k.to_string(), v.into()))
        .collect();
    if object.get("tags").is_some() {
        document.insert("tags".into(), tags.into());
    }
    document.insert(
        "properties".into(),
        json!({"sku": {"name": sku}, "quota": quota}),
    );
    Ok(CollectionDraft {
        id: id.clone(),
        document: Value::from(document).to_string(),
        most_jobs,
        is_enabled: read_state(&properties)?,
    })
}

/// The location of a collection as shown. In a region pair it is immutable.
fn location(
    context: &Context,
    home: Option<&dyn JobHome>,
    wanted: Option<&str>,
) -> Result<Option<String>, SchedulerError> {
    let own = home.map(|home| home.name().to_owned());
    let Some(wanted) = wanted else {
        return Ok(own);
    };
    let place = match &context.keeping {
        JobPlacement::Alone(_) => home::place(&context.atlas, wanted)?,
        JobPlacement::Pair(pair) => pair.place(&context.atlas, wanted)?.name().to_owned(),
    };
    match own {
        Some(own) if own != place => Err(SchedulerError::moved(format!(
            "the job collection is in {own} and stays there: delete it, and make it in {place}"
        ))),
        _ => Ok(Some(place)),
    }
}

fn read_state(properties: &JsonObject<'_>) -> Result<Option<bool>, SchedulerError> {
    let states = [
        ("Enabled", Some(true)),
        ("Disabled", Some(false)),
        ("Suspended", None),
        ("Deleted", None),
    ];
    match properties.word("state", &states)? {
        Some(None) => Err(properties.wrong("state", "it may be set to Enabled or Disabled only")),
        state => Ok(state.flatten()),
    }
}

/// The quota as shown, and the effective limit of jobs.
fn read_quota(
    context: &Context,
    properties: &JsonObject<'_>,
    most: u64,
    minutes: i64,
) -> Result<(Value, Option<u64>), SchedulerError> {
    let is_bound = context.settings.enforce_quotas;
    let (frequency, interval) = match minutes {
        60 => ("Hour", 1),
        minutes => ("Minute", minutes),
    };
    // Without limits only a requested quota is shown.
    let mut shown = if is_bound {
        json!({
            "maxJobCount": most,
            "maxRecurrence": {"frequency": frequency, "interval": interval},
        })
    } else {
        json!({})
    };
    let Some(quota) = properties.object("quota")? else {
        return Ok((shown, is_bound.then_some(most)));
    };
    let count = quota.number_in("maxJobCount", 1..=i64::from(u32::MAX))?;
    if let Some(count) = count {
        if is_bound && count as u64 > most {
            let message = format!("the sku allows {most} at most");
            return Err(quota.wrong("maxJobCount", message));
        }
        shown["maxJobCount"] = count.into();
    }
    if let Some(occurrence) = quota.number("maxJobOccurrence")? {
        shown["maxJobOccurrence"] = occurrence.into();
    }
    if let Some(recurrence) = quota.object("maxRecurrence")? {
        let gap = gap_ms(&recurrence)?;
        if is_bound && gap.is_some_and(|gap| gap < minutes * 60_000) {
            let message = "the sku does not allow jobs that often";
            return Err(quota.wrong("maxRecurrence", message));
        }
        if let Some(frequency) = recurrence.word("frequency", &FREQUENCIES)? {
            let interval = recurrence.number("interval")?.unwrap_or(1);
            let frequency = spell(&FREQUENCIES, &frequency);
            shown["maxRecurrence"] = json!({"frequency": frequency, "interval": interval});
        }
    }
    let bound = count.map(|count| count as u64).or(is_bound.then_some(most));
    Ok((shown, bound))
}

/// The JSON of a collection, in the caller's spelling of its id.
pub(crate) fn show(
    home: Option<&dyn JobHome>,
    id: &CollectionId,
    collection: &JobCollection,
) -> Value {
    let mut shown = stored(collection);
    shown["id"] = path::collection_id(id).into();
    shown["type"] = "Microsoft.Scheduler/jobCollections".into();
    shown["name"] = id.name.clone().into();
    let is_leaving = collection
        .sweep
        .is_some_and(|sweep| sweep.kind == SweepKind::Delete);
    let state = match (is_leaving, collection.is_enabled) {
        (true, _) => "Deleted",
        (false, true) => "Enabled",
        (false, false) => "Disabled",
    };
    shown["properties"]["state"] = state.into();
    home::show(home, &mut shown);
    shown
}
