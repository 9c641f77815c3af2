//! A scheduler on a port, and a target that obeys.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_jobs::region::RegionMap;
use steadfast_jobs::{JobClient, JobRunner, JobScheduler};
use steadfast_net::egress::EgressPolicy;
use steadfast_net::http;
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_partition::{Effect, Options, Performer, Services, SingleNode, Space};
use steadfast_partition::{Router as Doors, Runtime};
use steadfast_scheduler::outbound::{Options as OutboundOptions, OutboundDelivery};
use steadfast_scheduler::{
    Auth, Context, JobPlacement, NoInternalTargets, SecretKey, Settings, routes,
};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) const VERSION: &str = "api-version=2016-03-01";
pub(crate) const COLLECTION: &str =
    "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";

/// How a stage is set up.
pub(crate) struct Setup<'a> {
    pub(crate) settings: Settings,
    pub(crate) auth: Auth,
    pub(crate) data: Option<&'a Path>,
    pub(crate) tls: Option<(&'a Path, &'a Path)>,
    pub(crate) outbound: Box<dyn FnOnce(&mut OutboundOptions) + 'a>,
    pub(crate) port: u16,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            settings: quick(),
            auth: Auth::None,
            data: None,
            tls: None,
            outbound: Box::new(|_| {}),
            port: 0,
        }
    }
}

/// Retries that a test can wait for.
pub(crate) fn quick() -> Settings {
    Settings {
        min_retry_interval: Duration::from_millis(50),
        ..Settings::default()
    }
}

/// A scheduler behind a port of its own.
pub(crate) struct Stage {
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    pub(crate) jobs: JobClient,
    runtime: Runtime,
    _store: Arc<Store>,
}

struct Perform(JobRunner);

impl Performer for Perform {
    fn perform(&self, effect: Effect) {
        self.0.perform(effect);
    }
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup<'_>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let engine: Arc<dyn Engine> = match setup.data {
            Some(folder) => {
                Arc::new(LocalEngine::open(folder, &local::Options::default()).unwrap())
            }
            None => Arc::new(MemoryEngine::new()),
        };
        let owner = Owner {
            node: 1,
            incarnation: fastrand::u128(..),
        };
        let store = Arc::new(Store::start(
            Arc::clone(&engine),
            steadfast_storage::Options::new(owner),
        ));
        let router = Arc::new(Doors::new(Arc::new(SingleNode)));
        let key = SecretKey::new("a key for tests");
        let mut outbound = OutboundOptions::new(key.clone());
        // Targets of tests are on loopback.
        outbound.connect.guard.policy = EgressPolicy::with_private();
        (setup.outbound)(&mut outbound);
        let own = Arc::clone(&outbound.connect.guard.own);
        let egress = outbound.connect.guard.policy.clone();
        let outbound = OutboundDelivery::new(outbound, Arc::clone(&clock)).unwrap();
        let runner = JobRunner::new(Arc::clone(&router), Arc::new(outbound), Arc::clone(&clock));
        let options = Options {
            services: Services::new().with(JobScheduler),
            performer: Arc::new(Perform(runner.clone())),
            router,
            clock: Arc::clone(&clock),
        };
        let wanted = Space {
            number: 0,
            name: "main".into(),
            partitions: 4,
            incarnation: 1,
        };
        let space = Space::open(&*engine, wanted).await.unwrap();
        let runtime = Runtime::new(Arc::clone(&store), space, options);
        runtime.serve_all().await.unwrap();
        let jobs = JobClient::new(&runtime, runner);
        let mut settings = setup.settings;
        settings.scheme = if setup.tls.is_some() { "https" } else { "http" };
        let context = Context {
            keeping: JobPlacement::Alone(jobs.clone()),
            clock,
            auth: setup.auth,
            key,
            egress,
            internal: Arc::new(NoInternalTargets),
            settings,
            atlas: RegionMap::default(),
        };
        let tls = setup
            .tls
            .map(|(chain, key)| Certificate::load(chain, key).unwrap());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = serve(routes(Arc::new(context)), tls.as_ref(), setup.port);
        own.write().push(address);
        Self {
            base: format!("{scheme}://{address}"),
            client: client(),
            jobs,
            runtime,
            _store: store,
        }
    }

    /// Its partitions are taken from it, without a word.
    pub(crate) fn lose_all(&self) {
        for partition in self.runtime.serving() {
            self.runtime.abandon(partition);
        }
    }

    /// Asks; the path lacks the version.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let glue = if path.contains('?') { '&' } else { '?' };
        self.ask_raw(method, &format!("{path}{glue}{VERSION}"), body, &[])
            .await
    }

    pub(crate) async fn ask_raw(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let url = if path.starts_with("http") {
            path.to_string()
        } else {
            format!("{}{path}", self.base)
        };
        let mut request = self.client.request(method.parse().unwrap(), url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer {
            status,
            headers,
            body,
        }
    }

    /// Makes the collection of the tests.
    pub(crate) async fn collection(&self, sku: &str) {
        let body = json!({"location": "westus", "properties": {"sku": {"name": sku}}});
        let made = self.ask("PUT", COLLECTION, Some(body)).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
    }

    pub(crate) async fn put(&self, name: &str, properties: Value) -> Answer {
        let path = job(name);
        self.ask("PUT", &path, Some(json!({"properties": properties})))
            .await
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        let found = self.ask("GET", &job(name), None).await;
        assert_eq!(found.status, 200, "{:?}", found.body);
        found.body
    }

    pub(crate) async fn history(&self, name: &str) -> Vec<Value> {
        let found = self
            .ask("GET", &format!("{}/history", job(name)), None)
            .await;
        assert_eq!(found.status, 200, "{:?}", found.body);
        found.body["value"].as_array().unwrap().clone()
    }

    /// Waits until the history has so many items.
    pub(crate) async fn history_of(&self, name: &str, count: usize) -> Vec<Value> {
        for _ in 0..400 {
            let found = self.history(name).await;
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("no {count} items: {:?}", self.history(name).await);
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> (u16, &str, &str) {
        let error = &self.body["error"];
        let text = |name: &str| error[name].as_str().unwrap_or_default();
        (self.status, text("code"), text("target"))
    }
}

pub(crate) fn job(name: &str) -> String {
    format!("{COLLECTION}/jobs/{name}")
}

/// A client without extra trusted authorities.
pub(crate) fn client() -> reqwest::Client {
    // A test that ran before may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// An action that calls an address.
pub(crate) fn http_action(uri: &str) -> Value {
    json!({"type": "Http", "request": {"uri": uri, "method": "GET"}})
}

/// Serves routes on a port of loopback for as long as the runtime lives.
pub(crate) fn serve(routes: Router, tls: Option<&Arc<Certificate>>, port: u16) -> SocketAddr {
    let listener = Listener::bind(ListenerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        tls: tls.map(|tls| tls.server(&["http/1.1"])),
        connections: 1000,
    })
    .unwrap();
    let address = listener.address();
    let stop = CancellationToken::new();
    let running = listener.run(stop.clone(), TaskTracker::new(), move |stream, peer| {
        http::serve(stream, peer, routes.clone(), stop.clone())
    });
    tokio::spawn(running);
    address
}

/// A request as the target saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// A server that does what its paths say:
/// `/status/418`, `/slow/500`, `/redirect/307/...`, `/cookie`, `/big`.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) base: String,
    inside: Arc<Inside>,
}

struct Inside {
    clock: SystemClock,
    seen: Mutex<Vec<Seen>>,
    came: Notify,
    /// A status for every request, whatever its path.
    status: Mutex<Option<u16>>,
}

impl Target {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    pub(crate) fn start_with(tls: Option<&Arc<Certificate>>) -> Self {
        let inside = Arc::new(Inside {
            clock: SystemClock::new(),
            seen: Mutex::default(),
            came: Notify::new(),
            status: Mutex::default(),
        });
        let routes = Router::new().fallback(take).with_state(Arc::clone(&inside));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = serve(routes, tls, 0);
        let base = format!("{scheme}://{address}");
        Self { base, inside }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inside.seen.lock().clone()
    }

    pub(crate) fn answer_always(&self, status: Option<u16>) {
        *self.inside.status.lock() = status;
    }

    /// Waits until so many requests have come.
    pub(crate) async fn wait(&self, count: usize) -> Vec<Seen> {
        let waiting = async {
            loop {
                let came = self.inside.came.notified();
                let seen = self.seen();
                if seen.len() >= count {
                    return seen;
                }
                came.await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        seen.unwrap_or_else(|_| {
            panic!(
                "{} of {count} requests: {:?}",
                self.seen().len(),
                self.seen()
            )
        })
    }
}

async fn take(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().to_string();
    inside.seen.lock().push(Seen {
        at: inside.clock.monotonic(),
        method: parts.method.to_string(),
        path: path.clone(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    inside.came.notify_waiters();
    let status = |code: u16| Response::builder().status(StatusCode::from_u16(code).unwrap());
    if let Some(code) = *inside.status.lock() {
        return status(code).body(Body::empty()).unwrap();
    }
    let words: Vec<_> = path.splitn(4, '/').skip(1).collect();
    match words.as_slice() {
        ["status", code] => status(code.parse().unwrap())
            .body("told to".into())
            .unwrap(),
        ["slow", ms] => {
            tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await;
            status(200).body(Body::empty()).unwrap()
        }
        ["redirect", code, to] => {
            let to = if to.starts_with("http") {
                (*to).to_string()
            } else {
                format!("/{to}")
            };
            let response = status(code.parse().unwrap()).header("location", to);
            response.body(Body::empty()).unwrap()
        }
        ["cookie"] => {
            let response = status(200)
                .header("set-cookie", "session=geheim")
                .header("x-told", "yes");
            response.body(Body::empty()).unwrap()
        }
        ["big"] => status(200).body("ü".repeat(5000).into()).unwrap(),
        // A token with the longest time that can be written.
        ["longest", "oauth2", "token"] => {
            let token = json!({"access_token": "longest", "expires_in": u64::MAX});
            status(200).body(token.to_string().into()).unwrap()
        }
        ["token", "oauth2", _] | ["tenant", "oauth2", "token"] => {
            let count = inside
                .seen
                .lock()
                .iter()
                .filter(|seen| seen.path.contains("oauth2"))
                .count();
            let token = json!({"access_token": format!("token-{count}"), "expires_in": "3600"});
            status(200).body(token.to_string().into()).unwrap()
        }
        _ => status(200).body("fine".into()).unwrap(),
    }
}
