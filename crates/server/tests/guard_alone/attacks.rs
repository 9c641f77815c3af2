//! All attacks at once, on a server with 1 GiB of addresses.
//!
//! Good clients ask at the same time, and are answered in time. The server stays small,
//! and gives back what the attacks took.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::running::{self, KNOWN, Server, said, steadfast, until};
use crate::strangers::good::{self, Waits};
use crate::strangers::{MIB, app_server, attacks, descriptors, http2, resident, shown, within};

/// The address space of the server, in KiB.
const ADDRESS_SPACE: u64 = 1024 * 1024;

/// What the server may have.
const MOST: u64 = 256 * MIB;

/// What the server may keep of an attack, and what 99 of 100 good requests may take. To
/// that comes what the machine itself takes, which the attackers share: the time of a
/// request to a thread of the test.
struct Bounds {
    kept: u64,
    longest: Duration,
}

/// For a binary as it is released, which `STEADFAST_BINARY` names.
const RELEASED: Bounds = Bounds {
    kept: 64 * MIB,
    longest: Duration::from_millis(250),
};

/// Code that is not optimised takes several times as long, and its tasks are larger.
const UNOPTIMISED: Bounds = Bounds {
    kept: 96 * MIB,
    longest: Duration::from_secs(1),
};

fn bounds() -> Bounds {
    match std::env::var_os("STEADFAST_BINARY") {
        Some(_) => RELEASED,
        None => UNOPTIMISED,
    }
}

const JOBS: &str = "/subscriptions/m/resourceGroups/d/providers/Microsoft.Scheduler\
                    /jobCollections/c?api-version=2016-03-01";

/// What attackers and clients know of a server with an event hub, a key for the jobs of
/// one team, and a token of a client of a hub.
struct Target {
    port: u16,
    amqp: u16,
    durable: u16,
    url: String,
    team_key: String,
    token: String,
    client: Client,
    tasks: Runtime,
}

impl Target {
    /// Runs an attack that holds nothing in the end.
    fn run(&self, attack: impl Future<Output = ()>) -> Held {
        self.tasks.block_on(attack);
        Box::new(())
    }
}

/// One attack at a time: each measures how long clients wait.
static ALONE: Mutex<()> = Mutex::new(());

fn target() -> (Server, Target) {
    let server = within(ADDRESS_SPACE);
    let made = server.post("/v1/eventhubs", json!({"name": "houses", "partitions": 1}));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let team = json!({"name": "team", "rights": ["manage jobs/teamA"]});
    let (status, team) = server.post("/v1/keys", team);
    assert_eq!(status, StatusCode::CREATED, "{team}");
    let mut command = steadfast(server.folder.path());
    command.args(["client", "token", "chat", "--user", "alice"]);
    command
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", KNOWN);
    let (code, token, error) = said(&running::finish(command));
    assert_eq!(code, 0, "{error}");
    let target = Target {
        port: server.port(),
        amqp: server.port_of("amqp"),
        durable: server.port_of("durable"),
        url: server.url.clone(),
        team_key: team["secret"].as_str().unwrap().to_owned(),
        token: token.trim().to_owned(),
        client: server.client.clone(),
        tasks: tokio::runtime::Builder::new_multi_thread()
            .on_thread_start(lower_priority)
            .enable_all()
            .build()
            .unwrap(),
    };
    (server, target)
}

/// Attackers have machines of their own; here they share the processors with the server
/// and with good clients. This thread takes what those leave.
fn lower_priority() {
    rustix::process::setpriority_process(None, 19).unwrap();
}

/// Something that an attack holds until it is dropped.
type Held = Box<dyn Send>;

/// One attack less is under way, also if it has failed.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs attacks side by side, with good clients beside them, and says how long those
/// waited. What the attacks hold they hold until the last one has done its work.
fn under(target: &Target, attacks: &[&(dyn Fn() -> Held + Sync)]) -> Vec<(&'static str, Waits)> {
    let is_over = AtomicBool::new(false);
    let left = AtomicUsize::new(attacks.len());
    std::thread::scope(|scope| {
        let over = &is_over;
        for attack in attacks {
            let left = &left;
            scope.spawn(move || {
                lower_priority();
                let done = Done(left);
                let held = attack();
                drop(done);
                while left.load(Ordering::SeqCst) > 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                over.store(true, Ordering::Relaxed);
                drop(held);
            });
        }
        let (port, amqp) = (target.port, target.amqp);
        let clients = [
            ("HTTP", scope.spawn(move || good::http(port, false, over))),
            (
                "new HTTP",
                scope.spawn(move || good::http(port, true, over)),
            ),
            (
                "AMQP",
                scope.spawn(move || good::amqp(amqp, "houses", over)),
            ),
            ("machine", scope.spawn(move || good::echo(over))),
        ];
        let waits = clients.map(|(name, client)| (name, client.join().unwrap()));
        waits.to_vec()
    })
}

/// Asserts that good clients were served in time, that the server stayed small, and that
/// it gives back what it took.
fn assert_served(server: &Server, what: &str, before: u64, waits: &[(&'static str, Waits)]) {
    let bounds = bounds();
    let peak = shown(server, "VmHWM:");
    let space = shown(server, "VmPeak:");
    println!(
        "{what}: {} MiB before, {} MiB at the peak, {} MiB at the end, {} MiB of addresses",
        before / MIB,
        peak / MIB,
        resident(server) / MIB,
        space / MIB
    );
    for (name, waits) in waits {
        println!("{what}: {name}: {waits:?}");
    }
    assert!(peak < MOST, "{what}: {} MiB", peak / MIB);
    until("memory is given back", || {
        (resident(server) < before + bounds.kept).then_some(())
    });
    println!("{what}: {} MiB after", resident(server) / MIB);
    let machine = waits.last().unwrap().1.p99;
    for (name, waits) in waits {
        let is_served = waits.p99 < bounds.longest + machine;
        assert!(
            is_served,
            "{what}: {name}: {waits:?}, the machine {machine:?}"
        );
    }
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(server.get("/readyz").0, StatusCode::OK);
}

#[test]
fn unread_answers_without_a_key_cost_little() {
    let _alone = ALONE.lock();
    descriptors();
    let (server, target) = target();
    let before = resident(&server);
    let port = target.port;
    let waits = under(
        &target,
        &[
            &|| Box::new(http2::unread(port, 1000, 300, "/openapi.json")),
            &|| Box::new(http2::unread(port, 200, 900, "/metrics")),
            &|| Box::new(attacks::unread(port, 500, 300)),
        ],
    );
    assert_served(&server, "unread answers", before, &waits);
}

#[test]
fn every_attack_at_once_leaves_good_clients_served_in_a_gibibyte() {
    let _alone = ALONE.lock();
    let count = 10_000.min(descriptors().saturating_sub(4_000)) as usize;
    let (server, target) = target();
    let before = resident(&server);
    let (amqp, port, token) = (target.amqp, target.port, &target.token);
    let (client, url) = (&target.client, &target.url);
    let waits = under(
        &target,
        &[
            &|| Box::new(attacks::connections(amqp, count)),
            &|| Box::new([(); 20].map(|()| attacks::endless_frame(amqp))),
            &|| Box::new([(); 4].map(|()| attacks::replies(amqp))),
            &|| Box::new([(); 4].map(|()| attacks::link_names(amqp))),
            &|| Box::new(attacks::websockets(port, 60)),
            &|| Box::new(attacks::hub_sockets(port, 60, token)),
            &|| Box::new(http2::unread(port, 300, 300, "/openapi.json")),
            &|| Box::new(attacks::unread(port, 200, 200)),
            &|| Box::new(http2::bodies(port, 20, 150, JOBS)),
            &|| Box::new(attacks::slow_bodies(port, 100)),
            &|| Box::new(attacks::heads(port, 1000)),
            &|| {
                http2::resets(port, 10, 1000, "/v1/status");
                Box::new(())
            },
            &|| {
                let attack = app_server::partial_messages(port, 40);
                target.run(attack)
            },
            &|| {
                let attack = attacks::negotiations(client, url, token, 500);
                target.run(async { assert!(attack.await > 0) })
            },
            &|| {
                let attack = attacks::refusals(client, url, &target.team_key, token, 40);
                target.run(attack)
            },
            &|| {
                let attack = attacks::numbers(client, url, target.durable, 40);
                target.run(attack)
            },
        ],
    );
    assert_served(&server, "all attacks", before, &waits);
}
