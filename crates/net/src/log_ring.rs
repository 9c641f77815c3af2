//! The last lines of this process's log, in memory.
//!
//! Bounded in bytes: the oldest lines are dropped. Lines are numbered from 1 and without
//! gaps, so a reader sees how many it has missed. The ring has what standard error has:
//! [`Telemetry`](crate::telemetry::Telemetry) feeds both behind one filter.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::limits;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    pub number: u64,
    pub time: Timestamp,
    pub level: Level,
    /// The module that wrote it.
    pub target: &'static str,
    /// The stable name of what happened.
    pub event: Option<String>,
    pub message: Option<String>,
    pub fields: Map<String, Value>,
    /// It was too long; the rest is missing.
    pub is_cut: bool,
}

/// Some lines of the log.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    pub lines: Vec<Arc<LogLine>>,
    /// The number after which the next page begins.
    pub next: u64,
    /// Lines before the first one of the page that were dropped.
    pub dropped: u64,
}

/// The last lines of the log.
pub struct LogRing {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The number of the newest line.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// With their weights in bytes.
    lines: VecDeque<(Arc<LogLine>, usize)>,
    bytes: usize,
    newest: u64,
}

/// What a line costs besides its texts.
const LINE_OVERHEAD: usize = 256;

impl LogRing {
    /// An empty ring.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::default(),
            newest: watch::channel(0).0,
        })
    }

    /// The layer that adds every event that it gets.
    pub fn layer<S: Subscriber>(self: &Arc<Self>) -> impl Layer<S> + use<S> {
        LogRingLayer(Arc::clone(self))
    }

    /// Notifies of new lines, with the number of the newest one.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lines of at least this severity after a number, `limit` at most; without a number the
    /// last ones. A number that was never given, such as one of a previous process, stands
    /// for the beginning.
    pub fn page(&self, after: Option<u64>, limit: usize, least: Level) -> LogPage {
        let state = self.state.lock();
        let dropped = state.newest - state.lines.len() as u64;
        let is_wanted = |line: &&Arc<LogLine>| line.level <= least;
        let Some(after) = after else {
            let last = state.lines.iter().rev().map(|(line, _)| line);
            let mut lines: Vec<_> = last.filter(is_wanted).take(limit).cloned().collect();
            lines.reverse();
            return LogPage {
                lines,
                next: state.newest,
                dropped,
            };
        };
        let after = if after > state.newest { 0 } else { after };
        let start = after.max(dropped);
        // Numbers have no gaps.
        let later = state.lines.range((start - dropped) as usize..);
        let wanted = later.map(|(line, _)| line).filter(is_wanted);
        let lines: Vec<_> = wanted.take(limit).cloned().collect();
        let last = lines.last().filter(|_| lines.len() == limit);
        LogPage {
            next: last.map_or(state.newest, |line| line.number),
            dropped: start - after,
            lines,
        }
    }

    fn add(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut reader = LineReader::default();
        event.record(&mut reader);
        let weight = LINE_OVERHEAD + reader.bytes;
        let mut line = LogLine {
            number: 0,
            time: self.clock.now(),
            level: *metadata.level(),
            target: metadata.target(),
            event: reader.event,
            message: reader.message,
            fields: reader.fields,
            is_cut: reader.is_cut,
        };
        let newest = {
            let mut state = self.state.lock();
            state.newest += 1;
            line.number = state.newest;
            state.bytes += weight;
            state.lines.push_back((Arc::new(line), weight));
            while state.bytes > limits::LOG_RING_BYTES
                && let Some((_, weight)) = state.lines.pop_front()
            {
                state.bytes -= weight;
            }
            state.newest
        };
        // A later line may have been announced before.
        self.newest.send_if_modified(|last| {
            let is_later = newest > *last;
            *last = newest.max(*last);
            is_later
        });
    }
}

/// Feeds a ring.
struct LogRingLayer(Arc<LogRing>);

impl<S: Subscriber> Layer<S> for LogRingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.add(event);
    }
}

/// Reads the fields of an event, up to a number of bytes.
#[derive(Default)]
struct LineReader {
    event: Option<String>,
    message: Option<String>,
    fields: Map<String, Value>,
    bytes: usize,
    is_cut: bool,
}

impl LineReader {
    fn put_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "event" => self.event = Some(text),
            "message" => self.message = Some(text),
            name => drop(self.fields.insert(name.to_owned(), Value::String(text))),
        }
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        if self.room(field) > 0 {
            self.fields.insert(field.name().to_owned(), value.into());
        }
    }

    /// The bytes that are left for the value of a field.
    fn room(&mut self, field: &Field) -> usize {
        self.bytes += field.name().len() + size_of::<Value>();
        let room = limits::LOG_LINE_BYTES.saturating_sub(self.bytes);
        self.is_cut |= room == 0;
        room
    }
}

impl Visit for LineReader {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = BoundedText {
            text: String::new(),
            room: self.room(field),
            is_cut: false,
        };
        // It fails when there is no more room.
        let _ = write!(text, "{value:?}");
        self.bytes += text.text.len();
        self.is_cut |= text.is_cut;
        self.put_text(field, text.text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

/// A text that takes no more than there is room for.
struct BoundedText {
    text: String,
    room: usize,
    is_cut: bool,
}

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = more.floor_char_boundary(self.room.min(more.len()));
        self.text.push_str(&more[..end]);
        self.room -= end;
        if end < more.len() {
            self.is_cut = true;
            return Err(fmt::Error);
        }
        Ok(())
    }
}
