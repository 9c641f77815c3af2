//! The schedule of a job, from and to the command line.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::exit::CommandError;

/// The schedule of a job.
#[derive(Args)]
pub(crate) struct TimingArguments {
    /// First run, such as 2030-01-01T05:00:00Z
    #[arg(long)]
    start: Option<String>,
    /// Interval: [N]minute, hour, day, week or month, such as `15minute` or `day`
    #[arg(long, conflicts_with = "cron")]
    every: Option<String>,
    /// A cron expression of 5 or 6 fields
    #[arg(long)]
    cron: Option<String>,
    /// An IANA time zone
    #[arg(long)]
    zone: Option<String>,
    /// Maximum number of runs
    #[arg(long)]
    count: Option<u32>,
}

impl TimingArguments {
    /// The schedule as JSON members of a job or a preview.
    pub(super) fn members(&self) -> Result<Map<String, Value>> {
        let mut members = Map::new();
        if let Some(start) = &self.start {
            members.insert("startTime".into(), json!(start));
        }
        let mut repeat = self.every.as_deref().map(every).transpose()?;
        if self.cron.is_some() && self.count.is_some() {
            // With a cron expression, the recurrence only carries the count.
            repeat = Some(json!({"frequency": "Day"}));
        }
        if let (Some(repeat), Some(count)) = (&mut repeat, self.count) {
            repeat["count"] = json!(count);
        }
        members.extend(repeat.map(|repeat| ("recurrence".to_owned(), repeat)));
        let mut own = Map::new();
        let cron = self.cron.as_ref();
        own.extend(cron.map(|cron| ("cron".to_owned(), json!(cron))));
        let zone = self.zone.as_ref();
        own.extend(zone.map(|zone| ("timeZone".to_owned(), json!(zone))));
        if !own.is_empty() {
            members.insert("steadfast".into(), own.into());
        }
        Ok(members)
    }
}

/// Parses `15minute`.
fn every(text: &str) -> Result<Value> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let interval: u32 = if number.is_empty() {
        1
    } else {
        let parsed = number.parse();
        parsed.map_err(|_| CommandError::Usage(format!("'{number}' is too large")))?
    };
    Ok(json!({"frequency": unit.trim_end_matches('s'), "interval": interval}))
}

/// When a job runs, in words: `cron 0 5 * * *` or `every 2 days`.
pub(super) fn schedule(properties: &Value) -> Value {
    if let Some(cron) = properties["steadfast"]["cron"].as_str() {
        return json!(format!("cron {cron}"));
    }
    let recurrence = &properties["recurrence"];
    let unit = recurrence["frequency"].as_str();
    let unit = properties["steadfast"]["frequency"].as_str().or(unit);
    let Some(unit) = unit.map(str::to_lowercase) else {
        return json!("once");
    };
    match recurrence["interval"].as_u64() {
        None | Some(1) => json!(format!("every {unit}")),
        Some(interval) => json!(format!("every {interval} {unit}s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_told_in_words() {
        let words = |properties: Value| schedule(&properties);
        assert_eq!(words(json!({})), "once");
        let every = |unit: &str, interval: u32| json!({"recurrence": {"frequency": unit, "interval": interval}});
        assert_eq!(words(every("Day", 1)), "every day");
        assert_eq!(words(every("Hour", 2)), "every 2 hours");
        let cron = json!({"steadfast": {"cron": "0 5 * * *"}, "recurrence": {"count": 3}});
        assert_eq!(words(cron), "cron 0 5 * * *");
    }
}
