//! `/metrics`, for Prometheus.
//!
//! Counters of other layers are read at each scrape; nothing is counted twice.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Names;
use steadfast_core::clock::Clock;

/// A metric of another layer: name, help and value.
#[derive(Clone, Debug)]
pub enum MetricSample {
    /// A counter. The name gets `_total`.
    Counter(&'static str, &'static str, u64),
    /// A gauge.
    Gauge(&'static str, &'static str, f64),
    /// Counters by label: name, help, label, and one value per label value.
    Counters(&'static str, &'static str, &'static str, Vec<(String, u64)>),
    /// Gauges by label.
    Gauges(&'static str, &'static str, &'static str, Vec<(String, f64)>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    status: u16,
}

type MetricSource = Box<dyn Fn() -> Vec<MetricSample> + Send + Sync>;

/// All metrics of a node.
pub struct MetricRegistry {
    names: Mutex<Names>,
    requests: Family<RequestLabels, Counter>,
    seconds: Histogram,
    clock: Arc<dyn Clock>,
}

struct SampleCollector(MetricSource);

impl fmt::Debug for SampleCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readings")
    }
}

impl Collector for SampleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for reading in (self.0)() {
            match reading {
                MetricSample::Counter(name, help, value) => {
                    let metric = ConstCounter::new(value);
                    let kind = metric.metric_type();
                    metric.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
                }
                MetricSample::Gauge(name, help, value) => {
                    let metric = ConstGauge::new(value);
                    let kind = metric.metric_type();
                    metric.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
                }
                MetricSample::Counters(name, help, label, values) if !values.is_empty() => {
                    let kind = ConstCounter::new(0_u64).metric_type();
                    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
                    for (of, value) in values {
                        let one = [(label, of.as_str())];
                        ConstCounter::new(value).encode(family.encode_family(&one)?)?;
                    }
                }
                MetricSample::Gauges(name, help, label, values) if !values.is_empty() => {
                    let kind = ConstGauge::new(0.0).metric_type();
                    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
                    for (of, value) in values {
                        let one = [(label, of.as_str())];
                        ConstGauge::new(value).encode(family.encode_family(&one)?)?;
                    }
                }
                MetricSample::Counters(..) | MetricSample::Gauges(..) => {}
            }
        }
        Ok(())
    }
}

impl MetricRegistry {
    /// A registry with the metrics of HTTP requests.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let requests = Family::default();
        let seconds = Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut names = Names::with_prefix("steadfast");
        names.register("http_requests", "Requests answered", requests.clone());
        names.register(
            "http_seconds",
            "Time to the head of an answer",
            seconds.clone(),
        );
        Self {
            names: Mutex::new(names),
            requests,
            seconds,
            clock,
        }
    }

    /// Adds a source of samples.
    pub fn add_source(&self, source: impl Fn() -> Vec<MetricSample> + Send + Sync + 'static) {
        let readings = SampleCollector(Box::new(source));
        self.names.lock().register_collector(Box::new(readings));
    }

    /// `/metrics`. It needs no key: names and numbers only.
    pub fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/metrics", get(async move || self.text()))
    }

    fn text(&self) -> Response {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.names.lock());
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(CONTENT_TYPE, kind)], text).into_response()
    }
}

/// Counts a request and measures its duration.
pub(super) async fn measure(
    State(registry): State<Arc<MetricRegistry>>,
    request: Request,
    next: Next,
) -> Response {
    let began = registry.clock.monotonic();
    let response = next.run(request).await;
    let took = registry.clock.monotonic().saturating_sub(began);
    let status = response.status().as_u16();
    registry
        .requests
        .get_or_create(&RequestLabels { status })
        .inc();
    registry.seconds.observe(took.as_secs_f64());
    response
}
