//! `steadfast eventhub tail`: follow an event hub.
//!
//! Every partition has one long-poll request in flight, which the server answers when
//! there are events. So the events of one partition stay in order.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use data_encoding::HEXLOWER;
use reqwest::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use super::position::PositionArgument;
use crate::globals::Globals;
use crate::listing::rows;
use crate::output::out;
use crate::server_client::{ServerClient, segment};

/// How long the server waits for events, in seconds.
const WAIT: u64 = 20;

/// Time that is added to the server's wait for the response.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(crate) struct TailArguments {
    /// Name of the event hub
    hub: String,
    /// Follow only this partition; may be repeated
    #[arg(long = "partition", value_name = "N")]
    partitions: Vec<u32>,
    /// Position to start at: start, end, a sequence number, or a time
    #[arg(long, default_value = "end")]
    from: PositionArgument,
    /// Format of events; JSON if the output is JSON
    #[arg(long, value_enum)]
    format: Option<EventFormat>,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Stop when no events arrive for this many seconds; 0 shows the existing events only
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=30))]
    wait: Option<u64>,
}

/// The format of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventFormat {
    /// One line of JSON with all fields
    Json,
    /// Position, key and body
    Text,
    /// Position, key and the bytes of the body
    Hex,
}

/// Shows events until a limit is reached.
pub(crate) fn run(tail: &TailArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    // A stream has one line per event, also as YAML, of which JSON is a part.
    let usual = if globals.output().is_structured() {
        EventFormat::Json
    } else {
        EventFormat::Text
    };
    let form = tail.format.unwrap_or(usual);
    let hub = segment(&tail.hub)?;
    let path = format!("/v1/eventhubs/{hub}");
    let known: Value = remote.request(Method::GET, &path, None)?;
    let all = known["partitions"]
        .as_u64()
        .context("the server's response has no partitions")?;
    let partitions = if tail.partitions.is_empty() {
        (0..all as u32).collect()
    } else {
        tail.partitions.clone()
    };
    remote.block(follow(tail, &remote, &path, &partitions, form))
}

async fn follow(
    tail: &TailArguments,
    remote: &ServerClient,
    hub: &str,
    partitions: &[u32],
    form: EventFormat,
) -> Result<()> {
    let wait = tail.wait.unwrap_or(WAIT);
    let ask = |partition: u32, place: String| {
        let path = format!("{hub}/events?partition={partition}&wait_s={wait}{place}");
        let answer = remote.get(Duration::from_secs(wait) + MARGIN, path);
        async move { (partition, answer.await) }
    };
    let mut under_way = JoinSet::new();
    for partition in partitions {
        under_way.spawn(ask(*partition, tail.first()));
    }
    let mut left = tail.count.unwrap_or(u64::MAX);
    while let Some(done) = under_way.join_next().await {
        let (partition, answer) = done.context("ask the server")?;
        let answer: Value = answer?;
        let events = rows(&answer, "events")?;
        for event in events {
            if left == 0 {
                return Ok(());
            }
            out(&line(event, form)?)?;
            left -= 1;
        }
        if left == 0 {
            return Ok(());
        }
        if !events.is_empty() || tail.wait.is_none() {
            let next = answer["next_sequence"].as_i64();
            let next = next.ok_or_else(|| anyhow!("the server's response has no next_sequence"))?;
            under_way.spawn(ask(partition, tail.next(next)));
        }
    }
    Ok(())
}

impl TailArguments {
    /// The start position of the first request.
    fn first(&self) -> String {
        match &self.from {
            PositionArgument::Start => "&from=start".to_owned(),
            PositionArgument::End => "&from=end".to_owned(),
            PositionArgument::Sequence(sequence) => format!("&from_sequence={sequence}"),
            PositionArgument::Time(_) => self.time(),
        }
    }

    /// The start position of the following requests. A time in the future stays a bound.
    fn next(&self, sequence: i64) -> String {
        format!("&from_sequence={sequence}{}", self.time())
    }

    fn time(&self) -> String {
        match &self.from {
            PositionArgument::Time(time) => {
                format!("&from_time={}", time.replace('+', "%2B").replace(' ', "T"))
            }
            _ => String::new(),
        }
    }
}

fn line(event: &Value, form: EventFormat) -> Result<String> {
    if form == EventFormat::Json {
        return Ok(event.to_string());
    }
    let mut line = format!("{}/{}  ", event["partition"], event["sequence"]);
    line += event["enqueued_time"].as_str().unwrap_or("-");
    if let Some(key) = event["key"].as_str() {
        write!(line, "  {key}")?;
    }
    let body = match (&event["body"], event["encoding"].as_str()) {
        (Value::String(text), Some("text")) if form == EventFormat::Text => text.clone(),
        (Value::String(text), Some("text")) => HEXLOWER.encode(text.as_bytes()),
        (Value::String(text), Some("base64")) => HEXLOWER.encode(&decode(text)?),
        (value, _) if form == EventFormat::Text => value.to_string(),
        (value, _) => HEXLOWER.encode(value.to_string().as_bytes()),
    };
    write!(line, "  {body}")?;
    Ok(line)
}

fn decode(text: &str) -> Result<Vec<u8>> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    bytes.context("the server's response is not base64")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_in_each_form() {
        let event = |body: &str, encoding: &str| {
            json!({"partition": 1, "sequence": 7, "enqueued_time": "T", "key": "k",
                "body": body, "encoding": encoding})
        };
        let show = |event: Value, form| line(&event, form).unwrap();
        assert_eq!(
            show(event("hi", "text"), EventFormat::Text),
            "1/7  T  k  hi"
        );
        assert_eq!(
            show(event("hi", "text"), EventFormat::Hex),
            "1/7  T  k  6869"
        );
        assert_eq!(
            show(event("/w==", "base64"), EventFormat::Text),
            "1/7  T  k  ff"
        );
        assert_eq!(
            show(event("/w==", "base64"), EventFormat::Hex),
            "1/7  T  k  ff"
        );
    }
}
