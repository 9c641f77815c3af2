//! REST over two regions, of which one is not well.
//!
//! Two servers keep the jobs of two homes. Which of them owns what, and whether they
//! reach one another, is set by the tests; the jobs are real.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::clock::SystemClock;
use steadfast_jobs::JobClient;
use steadfast_jobs::region::RegionMap;
use steadfast_net::egress::EgressPolicy;
use steadfast_scheduler::{
    Auth, Context, HomePair, JobHome, JobPlacement, NoInternalTargets, Replication, SecretKey,
    routes, serve_forwarded,
};

use crate::stage::{Answer, Stage, VERSION, http_action, quick, serve};

const NAMES: [&str; 2] = ["East US", "West US"];
const PLACE: &str =
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections";

/// Both servers, so that each finds the other.
type Servers = Arc<OnceLock<[Arc<Context>; 2]>>;

/// The jobs of a home, as one server has them.
struct Kept {
    home: usize,
    server: usize,
    jobs: JobClient,
    /// The server that owns them.
    owner: Arc<AtomicUsize>,
    is_cut: Arc<AtomicBool>,
    servers: Servers,
}

#[async_trait]
impl JobHome for Kept {
    fn name(&self) -> &str {
        NAMES[self.home]
    }

    fn is_owner(&self) -> bool {
        self.owner.load(Ordering::SeqCst) == self.server
    }

    fn replication(&self) -> Replication {
        Replication {
            owner: NAMES[self.owner.load(Ordering::SeqCst)].to_owned(),
            epoch: 1,
            lag_ms: 0,
            mode: "synced".to_owned(),
        }
    }

    fn requires_sync(&self) -> bool {
        false
    }

    async fn forward(&self, errand: Bytes, _: bool) -> Option<Bytes> {
        if self.is_cut.load(Ordering::SeqCst) {
            return None;
        }
        let other = &self.servers.get()?[1 - self.server];
        let JobPlacement::Pair(pair) = &other.keeping else {
            return None;
        };
        Some(serve_forwarded(other, &*pair.homes[self.home], errand).await)
    }

    fn jobs(&self) -> &JobClient {
        &self.jobs
    }

    fn copies(&self) -> Option<JobClient> {
        None
    }
}

struct World {
    /// The jobs of both homes.
    homes: [Stage; 2],
    owners: [Arc<AtomicUsize>; 2],
    is_cut: Arc<AtomicBool>,
    bases: [String; 2],
}

impl World {
    /// Each region owns its own.
    async fn start() -> Self {
        let homes = [Stage::start().await, Stage::start().await];
        let owners = [0, 1].map(|owner| Arc::new(AtomicUsize::new(owner)));
        let is_cut = Arc::new(AtomicBool::new(false));
        let servers: Servers = Arc::default();
        let contexts = [0, 1].map(|server| {
            let kept = [0, 1].map(|home| {
                Arc::new(Kept {
                    home,
                    server,
                    jobs: homes[home].jobs.clone(),
                    owner: Arc::clone(&owners[home]),
                    is_cut: Arc::clone(&is_cut),
                    servers: Arc::clone(&servers),
                }) as Arc<dyn JobHome>
            });
            Arc::new(Context {
                keeping: JobPlacement::Pair(HomePair {
                    region: NAMES[server].to_owned(),
                    homes: kept,
                }),
                clock: Arc::new(SystemClock::new()),
                auth: Auth::None,
                key: SecretKey::new("a key for tests"),
                egress: EgressPolicy::with_private(),
                internal: Arc::new(NoInternalTargets),
                settings: quick(),
                atlas: RegionMap::default(),
            })
        });
        let bases = contexts.clone().map(|context| {
            let address = serve(routes(context), None, 0);
            format!("http://{address}")
        });
        let _ = servers.set(contexts);
        Self {
            homes,
            owners,
            is_cut,
            bases,
        }
    }

    async fn ask(&self, server: usize, method: &str, path: &str, body: Option<Value>) -> Answer {
        let url = format!("{}{PLACE}{path}?{VERSION}", self.bases[server]);
        let asked = &self.homes[0];
        asked.ask_raw(method, &url, body, &[]).await
    }

    async fn make(&self, server: usize, name: &str, home: usize) -> Answer {
        let body = json!({"location": NAMES[home], "properties": {}});
        self.ask(server, "PUT", name, Some(body)).await
    }
}

fn job() -> Option<Value> {
    let action = http_action("http://127.0.0.1:1/");
    Some(json!({"properties": {"startTime": "2027-01-01T00:00:00Z", "action": action}}))
}

#[tokio::test]
async fn a_sick_home_does_not_take_the_other_one_with_it() {
    // One server owns both; one of them cannot be served.
    for sick in [0, 1] {
        let world = World::start().await;
        for (name, home) in [("/c", 0), ("/w", 1)] {
            world.owners[home].store(0, Ordering::SeqCst);
            assert_eq!(world.make(0, name, home).await.status, 201);
        }
        world.homes[sick].lose_all();
        let [well, ill] = [["/w", "/c"][sick], ["/c", "/w"][sick]];
        for server in [0, 1] {
            assert_eq!(world.ask(server, "GET", well, None).await.status, 200);
            let path = format!("{well}/jobs/j{server}");
            assert_eq!(world.ask(server, "PUT", &path, job()).await.status, 201);
            assert_eq!(world.ask(server, "GET", ill, None).await.status, 503);
            let path = format!("{ill}/jobs/j{server}");
            let refused = world.ask(server, "PUT", &path, job()).await;
            assert_eq!(refused.status, 503);
            // It could be in the other home, so it is not made.
            let refused = world.make(server, "/new", 1 - sick).await;
            assert_eq!(refused.status, 503, "{:?}", refused.body);
            assert!(refused.body.to_string().contains("STF-7033"));
        }
    }
}

#[tokio::test]
async fn regions_that_do_not_reach_one_another_answer_for_what_they_own() {
    let world = World::start().await;
    for (name, home) in [("/c", 0), ("/w", 1)] {
        assert_eq!(world.make(0, name, home).await.status, 201);
    }
    world.is_cut.store(true, Ordering::SeqCst);
    for (server, own, other) in [(0, "/c", "/w"), (1, "/w", "/c")] {
        assert_eq!(world.ask(server, "GET", own, None).await.status, 200);
        assert_eq!(world.ask(server, "GET", other, None).await.status, 503);
        assert_eq!(world.ask(server, "GET", "", None).await.status, 503);
        assert_eq!(world.make(server, "/new", server).await.status, 503);
        let path = format!("{own}/jobs/j");
        assert_eq!(world.ask(server, "PUT", &path, job()).await.status, 201);
    }
    world.is_cut.store(false, Ordering::SeqCst);
    let list = world.ask(1, "GET", "", None).await;
    assert_eq!(list.body["value"].as_array().unwrap().len(), 2);
    // No server owns them: each believes the other does, and no request loops.
    world.owners[0].store(2, Ordering::SeqCst);
    let refused = world.ask(0, "PUT", "/c/jobs/j", job()).await;
    assert_eq!(refused.status, 503);
    assert_eq!(world.ask(0, "PUT", "/w/jobs/j", job()).await.status, 200);
}

#[tokio::test]
async fn what_is_not_made_leaves_its_name_free() {
    let world = World::start().await;
    for server in [0, 1] {
        for home in [0, 1] {
            let name = format!("/n{server}{home}");
            let bad = json!({"location": NAMES[home], "properties": {"sku": {"name": "Gold"}}});
            let refused = world.ask(server, "PUT", &name, Some(bad)).await;
            assert_eq!(refused.status, 400, "{:?}", refused.body);
            assert_eq!(world.make(server, &name, 1 - home).await.status, 201);
            // It is there now, so it stays there; and it is found in any case.
            let moved = world.make(1 - server, &name, home).await;
            assert_eq!(moved.code().0, 409, "{:?}", moved.body);
            assert_eq!(moved.code().1, "InvalidResourceLocation");
            let found = world.ask(server, "GET", &name.to_uppercase(), None).await;
            assert_eq!(found.body["location"], NAMES[1 - home]);
            assert_eq!(world.ask(server, "DELETE", &name, None).await.status, 200);
            assert_eq!(world.ask(server, "GET", &name, None).await.status, 404);
            assert_eq!(world.ask(server, "DELETE", &name, None).await.status, 404);
            assert_eq!(world.make(server, &name, home).await.status, 201);
        }
    }
}
