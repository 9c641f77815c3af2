//! Logs for people or machines, and spans for a collector.
//!
//! Spans are exported if the standard variables of OpenTelemetry name a collector
//! (`OTEL_EXPORTER_OTLP_ENDPOINT` or its form for traces), by HTTP.

use std::env;
use std::io;
use std::sync::Arc;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use steadfast_core::clock::SystemClock;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::log_ring::LogRing;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

/// Handles of logging and of the span exporter.
pub struct Telemetry {
    level: reload::Handle<Targets, Registry>,
    log: Arc<LogRing>,
    spans: Option<SdkTracerProvider>,
}

/// Variables that name a collector.
const COLLECTORS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

impl Telemetry {
    /// Starts logging to standard error, and exporting if a collector is named. Works once
    /// per process.
    pub fn start(level: &str, format: Format) -> Result<Self, String> {
        let (level, handle) = reload::Layer::new(targets(level)?);
        let spans = exporter()?;
        // Only spans of our crates: the exporter's own spans would cause further exports.
        let layer = spans.as_ref().map(|spans| {
            let tracer = spans.tracer("steadfast");
            let layer = tracing_opentelemetry::layer().with_tracer(tracer);
            layer.with_filter(Targets::new().with_target("steadfast", LevelFilter::INFO))
        });
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match format {
            Format::Text => lines.with_target(false).boxed(),
            Format::Json => lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .boxed(),
        };
        let log = LogRing::new(Arc::new(SystemClock::new()));
        let lines = lines.and_then(log.layer());
        let started = Registry::default()
            .with(lines.with_filter(level))
            .with(layer)
            .try_init();
        started.map_err(|error| format!("logging was started already: {error}"))?;
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let why = panic.payload_as_str().unwrap_or("no words");
            tracing::error!(event = "process.panicked", place, why);
        }));
        Ok(Self {
            level: handle,
            log,
            spans,
        })
    }

    /// The last lines of the log.
    pub fn log(&self) -> &Arc<LogRing> {
        &self.log
    }

    /// Whether spans are exported.
    pub fn is_exporting(&self) -> bool {
        self.spans.is_some()
    }

    /// Sets the log level.
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        let level = targets(level)?;
        self.level.reload(level).map_err(|error| error.to_string())
    }

    /// Flushes the remaining spans. Blocks until the collector has them or times out.
    pub fn end(&self) {
        if let Some(Err(error)) = self.spans.as_ref().map(SdkTracerProvider::shutdown) {
            tracing::warn!(event = "telemetry.export_failed", %error);
        }
    }
}

/// Checks a log level.
pub fn check_level(level: &str) -> Result<(), String> {
    targets(level).map(drop)
}

fn targets(level: &str) -> Result<Targets, String> {
    let bad = || {
        format!("'{level}' is not a log level, such as 'info' or 'info,steadfast_storage=debug'")
    };
    // A part without `=` must be a level; the parser would take it for a module.
    let mut words = level.split(',').filter(|part| !part.contains('='));
    if words.any(|word| word.trim().parse::<LevelFilter>().is_err()) {
        return Err(bad());
    }
    level.parse().map_err(|_| bad())
}

fn exporter() -> Result<Option<SdkTracerProvider>, String> {
    let is_named = COLLECTORS
        .iter()
        .any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    let is_disabled =
        env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if !is_named || is_disabled {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_http().build();
    let exporter = exporter.map_err(|error| format!("spans cannot be exported: {error}"))?;
    let mut resource = Resource::builder();
    if env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("steadfast");
    }
    let spans = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    global::set_tracer_provider(spans.clone());
    Ok(Some(spans))
}
