//! Scheduler requests, and certificates of jobs.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steadfast_core::clock::Clock;
use steadfast_jobs::region::RegionMap;
use steadfast_jobs::{
    Deliverer, DeliveryRequest, JobClient, JobRunner, JobScheduler as Service, Outcome,
};
use steadfast_net::egress::EgressPolicy;
use steadfast_partition::{Effect, Performer, Router, Services, SingleNode};
use steadfast_scheduler::{
    Auth, Context, JobPlacement, NoInternalTargets, SecretKey, Settings, routes,
};

use crate::http::{self, Web};
use crate::node::MemoryNode;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, settle};

/// What `~` at the start of a line stands for.
const COLLECTION: &str =
    "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";

const VERSION: &str = "api-version=2016-03-01";

/// Delivers no attempt.
struct NoDelivery;

#[async_trait]
impl Deliverer for NoDelivery {
    fn lane(&self, _: &DeliveryRequest) -> String {
        String::new()
    }

    async fn deliver(&self, _: &DeliveryRequest, _: u64) -> Outcome {
        Outcome {
            is_success: false,
            message: "there is no network".to_owned(),
        }
    }
}

struct RunnerPerformer(JobRunner);

impl Performer for RunnerPerformer {
    fn perform(&self, effect: Effect) {
        self.0.perform(effect);
    }
}

/// A scheduler in memory.
struct MemoryScheduler {
    web: Web,
    _node: MemoryNode,
}

impl MemoryScheduler {
    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let runner = JobRunner::new(
            Arc::clone(&router),
            Arc::new(NoDelivery),
            Arc::clone(&clock),
        );
        let performer = Arc::new(RunnerPerformer(runner.clone()));
        let services = Services::new().with(Service);
        let node = MemoryNode::start(services, performer, router, Arc::clone(&clock)).await;
        let context = Context {
            keeping: JobPlacement::Alone(JobClient::new(&node.runtime, runner)),
            clock: Arc::clone(&clock),
            auth: Auth::None,
            key: SecretKey::new("a key for secrets of jobs"),
            egress: EgressPolicy::with_private(),
            internal: Arc::new(NoInternalTargets),
            settings: Settings::default(),
            atlas: RegionMap::default(),
        };
        let server = Self {
            web: Web::new(routes(Arc::new(context)), &clock),
            _node: node,
        };
        assert_eq!(server.ask(&collection("jc")).await, Some(201));
        server
    }

    /// Sends a record as a request, and returns the status of the response.
    async fn ask(&self, record: &[u8]) -> Option<u16> {
        let request = http::request(record, complete)?;
        let answer = self.web.ask(request).await?;
        Some(answer.status.as_u16())
    }

    async fn answers(&self) {
        let name = "/subscriptions/good/resourceGroups/rg/providers/\
            Microsoft.Scheduler/jobCollections/good";
        let body = json!({"location": "westus", "properties": {"sku": {"name": "Standard"}}});
        let put = http::record(&Method::PUT, name, &body.to_string());
        let status = self.ask(&put).await;
        assert!(matches!(status, Some(200 | 201)), "{status:?}");
    }
}

/// The whole path of a line.
fn complete(line: &str) -> String {
    let line = match line.strip_prefix('~') {
        Some(rest) => format!("{COLLECTION}{rest}"),
        None => line.to_owned(),
    };
    match (line.contains("api-version"), line.contains('?')) {
        (true, _) => line,
        (false, true) => format!("{line}&{VERSION}"),
        (false, false) => format!("{line}?{VERSION}"),
    }
}

fn collection(name: &str) -> Vec<u8> {
    let body = json!({"location": "westus", "properties": {"sku": {"name": "Standard"}}});
    let path = COLLECTION.strip_suffix("jc").unwrap_or(COLLECTION);
    http::record(&Method::PUT, &format!("{path}{name}"), &body.to_string())
}

fn job(properties: &Value) -> Vec<u8> {
    let body = json!({"properties": properties}).to_string();
    http::record(&Method::PUT, "~/jobs/one", &body)
}

/// Requests with any body.
pub(crate) struct SchedulerSession(MemoryScheduler);

impl Session for SchedulerSession {
    const NAME: &'static str = "scheduler";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        Self(MemoryScheduler::start().await)
    }

    async fn take(&mut self, input: &[u8]) {
        for record in records::split(input) {
            self.0.ask(record).await;
            settle().await;
        }
    }

    async fn answers(&mut self) {
        self.0.answers().await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        scheduler_seeds()
    }
}

fn scheduler_seeds() -> Vec<Vec<u8>> {
    let http_action = json!({"type": "Https", "request": {
        "uri": "https://example.org/x?y=1", "method": "POST", "body": "text",
        "headers": {"content-type": "text/plain", "x-own": "1"},
        "authentication": {"type": "Basic", "username": "u", "password": "p"}},
        "retryPolicy": {"retryType": "Fixed", "retryInterval": "PT30S", "retryCount": 3},
        "errorAction": {"type": "Http", "request": {"uri": "http://example.org", "method": "GET"}}});
    let oauth = json!({"type": "Https", "request": {"uri": "https://example.org", "method": "GET",
        "authentication": {"type": "ActiveDirectoryOAuth", "tenant": "t", "audience": "a",
            "clientId": "c", "secret": "s"}}});
    let queue = json!({"type": "StorageQueue", "queueMessage": {"storageAccount": "a",
        "queueName": "q", "sasToken": "?sv=1&sig=x", "message": "m"}});
    let bus = json!({"type": "ServiceBusTopic", "serviceBusTopicMessage": {
        "namespace": "ns", "topicPath": "t", "transportType": "AMQP", "message": "m",
        "authentication": {"type": "sharedAccessKey", "sasKey": "k", "sasKeyName": "n"},
        "brokeredMessageProperties": {"contentType": "x", "timeToLive": "PT1M"}}});
    let recurrences = [
        json!({"frequency": "minute", "interval": 5, "count": 10}),
        json!({"frequency": "week", "interval": 1, "endTime": "2030-01-01T00:00:00Z",
            "schedule": {"minutes": [0, 30], "hours": [8], "weekDays": ["monday", "friday"]}}),
        json!({"frequency": "month", "interval": 2, "schedule": {
            "monthlyOccurrences": [{"day": "tuesday", "occurrence": -1}],
            "hours": [23], "minutes": [59]}}),
        json!({"frequency": "month", "schedule": {"monthDays": [1, -1, 31]}}),
    ];
    let start = "2029-02-29T00:00:00+14:00";
    let mut seeds = vec![
        collection("other"),
        job(&json!({"action": http_action, "startTime": start, "state": "Enabled"})),
        job(&json!({"action": oauth})),
        job(&json!({"action": queue})),
        job(&json!({"action": bus})),
    ];
    for recurrence in &recurrences {
        let properties = json!({"startTime": "2024-02-28T10:00:00Z", "action": queue,
            "recurrence": recurrence});
        let run = http::record(&Method::POST, "~/jobs/one/run", "");
        let read = http::record(&Method::GET, "~/jobs/one", "");
        seeds.push(records::join(&[job(&properties), run, read]));
    }
    let patch = json!({"properties": {"state": "Disabled", "recurrence": {"interval": 7}}});
    let patch = http::record(&Method::PATCH, "~/jobs/one", &patch.to_string());
    seeds.push(records::join(&[job(&json!({"action": queue})), patch]));
    for (method, line) in [
        (Method::GET, "~"),
        (
            Method::GET,
            "~/jobs?$top=1&$skip=1&$filter=state%20eq%20'enabled'",
        ),
        (
            Method::GET,
            "~/jobs/one/history?$top=2&$filter=status%20eq%20'failed'",
        ),
        (Method::POST, "~/enable"),
        (Method::POST, "~/disable"),
        (Method::DELETE, "~/jobs/one"),
        (Method::DELETE, "~"),
    ] {
        let made = job(&json!({"action": queue}));
        seeds.push(records::join(&[made, http::record(&method, line, "")]));
    }
    seeds
}

/// Jobs with a PKCS#12 file that is the input.
pub(crate) struct Pkcs12Session(MemoryScheduler);

/// The password of the files in the corpus.
const PASSWORD: &str = "p";

impl Session for Pkcs12Session {
    const NAME: &'static str = "pkcs12";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        Self(MemoryScheduler::start().await)
    }

    async fn take(&mut self, input: &[u8]) {
        let authentication = json!({"type": "ClientCertificate", "pfx": STANDARD.encode(input),
            "password": PASSWORD});
        let request = json!({"uri": "https://example.org", "method": "GET",
            "authentication": authentication});
        let properties = json!({"action": {"type": "Https", "request": request}});
        self.0.ask(&job(&properties)).await;
    }

    async fn answers(&mut self) {
        self.0.answers().await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        vec![include_bytes!("../corpus/pkcs12/made-by-openssl").to_vec()]
    }
}
