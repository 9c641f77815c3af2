//! Clients and servers of others: the Python SDK, and Azurite.
//!
//! Both are installed once below the target folder, by pip and npm.
#![expect(clippy::unwrap_used, reason = "tests")]

mod stage;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::json;
use stage::{Setup, Stage, Target, job};
use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_harness::{Process, reserve_port};
use steadfast_net::access::{AccessControl, Key, KeyRing, Secret};
use steadfast_scheduler::{Auth, Settings};

fn tools() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

static INSTALLING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// A Python with the SDK in it, made once.
fn python() -> PathBuf {
    let _one_at_a_time = INSTALLING.lock();
    let folder = tools().join("python-scheduler");
    let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
    if !ready.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let requirements = repository().join("interop/python-scheduler/requirements.txt");
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(requirements);
        succeed(&mut pip);
        std::fs::write(ready, "").unwrap();
    }
    python
}

fn auth() -> Auth {
    let mut ring = KeyRing::new();
    ring.add(Key {
        name: "sdk".into(),
        grants: vec!["manage jobs".parse().unwrap()],
        primary: Secret::new("secret"),
        secondary: None,
    });
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Auth::Keys(Arc::new(AccessControl::new(ring, clock)))
}

/// Runs a part of the scenario, `all` or one by its name.
async fn scenario(stage: &Stage, target: &Target, part: &str, ca: Option<&Path>) {
    let mut command = Command::new(python());
    // No cache of compiled files in the sources.
    command
        .arg("-B")
        .arg(repository().join("interop/python-scheduler/scenario.py"));
    command.args([part, &stage.base, &target.base]).args(ca);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("{part} works")), "{output:?}");
}

/// The SDK's calls reached the target, with their credentials.
fn is_called(target: &Target) -> bool {
    let seen = target.seen();
    seen.iter()
        .any(|seen| seen.header("authorization").starts_with("Basic "))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_12_the_sdk_gets_as_many_jobs_as_it_asks_for() {
    let target = Target::start();
    let setup = Setup {
        auth: auth(),
        settings: settings(),
        ..Setup::default()
    };
    scenario(&Stage::with(setup).await, &target, "lists", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_17_the_sdk_reads_our_errors() {
    let target = Target::start();
    let setup = Setup {
        auth: auth(),
        settings: settings(),
        ..Setup::default()
    };
    scenario(&Stage::with(setup).await, &target, "errors", None).await;
}

/// Pages are short, so that the SDK follows links, also without `$top`.
fn settings() -> Settings {
    Settings {
        page: 4,
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_01_the_sdk_does_everything_over_http() {
    let target = Target::start();
    let setup = Setup {
        auth: auth(),
        settings: settings(),
        ..Setup::default()
    };
    let stage = Stage::with(setup).await;
    scenario(&stage, &target, "all", None).await;
    assert!(is_called(&target));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_01_the_sdk_does_everything_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let (chain, key) = (folder.path().join("ca.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let target = Target::start();
    let stage = Stage::with(Setup {
        auth: auth(),
        // Every sweep is polled.
        settings: Settings {
            synchronous_jobs: 0,
            ..settings()
        },
        tls: Some((&chain, &key)),
        ..Setup::default()
    })
    .await;
    scenario(&stage, &target, "all", Some(&chain)).await;
    assert!(is_called(&target));
}

/// The well-known account of development.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Starts Azurite's queue service; answers its address.
fn azurite(data: &Path) -> (Process, String) {
    let folder = tools().join("azurite");
    let main = folder.join("node_modules/azurite/dist/src/queue/main.js");
    if !main.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&folder)
            .arg("azurite@3.35.0");
        succeed(&mut npm);
    }
    let port = reserve_port().unwrap();
    let mut command = Command::new("node");
    command.arg(main).args([
        "--queueHost",
        "127.0.0.1",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--location",
    ]);
    command.arg(data).args(["--queuePort", &port.to_string()]);
    let mut process = Process::spawn(command).unwrap();
    let is_up = |line: &str| line.contains("successfully listens");
    process.wait_for(is_up, Duration::from_secs(60)).unwrap();
    (process, format!("http://127.0.0.1:{port}/{ACCOUNT}"))
}

/// An account signature for queues.
fn account_sas() -> String {
    let end = Timestamp(SystemClock::new().now().0 + 3_600_000);
    let end = format!("{}Z", steadfast_core::iso::format_seconds(end));
    let (permissions, services, types, version) = ("rwdlacup", "q", "sco", "2019-12-12");
    let text = format!(
        "{ACCOUNT}\n{permissions}\n{services}\n{types}\n\n{end}\n\nhttps,http\n{version}\n"
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(ACCOUNT_KEY).unwrap());
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    let encode = |text: &str| {
        text.replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D")
            .replace(':', "%3A")
    };
    format!(
        "sv={version}&ss={services}&srt={types}&sp={permissions}&se={}&spr=https,http&sig={}",
        encode(&end),
        encode(&signature)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_queue_gets_the_envelope_of_the_original() {
    let data = tempfile::tempdir().unwrap();
    let (_azurite, endpoint) = azurite(data.path());
    let sas = account_sas();
    let address = endpoint.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| {
            options.endpoints.insert(ACCOUNT.into(), address);
        }),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let made = stage
        .client
        .put(format!("{endpoint}/tasks?{sas}"))
        .header("content-length", "0")
        .send()
        .await
        .unwrap();
    assert_eq!(
        made.status().as_u16(),
        201,
        "{}",
        made.text().await.unwrap()
    );
    let message = json!({"storageAccount": ACCOUNT, "queueName": "tasks", "sasToken": format!("?{sas}"), "message": "a < b & ü"});
    let action = json!({"type": "StorageQueue", "queueMessage": message, "retryPolicy": {"retryType": "None"}});
    let put = stage.put("q", json!({"action": action})).await;
    assert_eq!(put.status, 201, "{:?}", put.body);
    let history = stage.history_of("q", 1).await;
    assert_eq!(
        history[0]["properties"]["status"], "Completed",
        "{history:?}"
    );
    assert!(
        !json!(history).to_string().contains("sig="),
        "the signature is not told"
    );
    let got = stage
        .client
        .get(format!("{endpoint}/tasks/messages?{sas}"))
        .send()
        .await
        .unwrap();
    let got = got.text().await.unwrap();
    let text = got
        .split("<MessageText>")
        .nth(1)
        .unwrap()
        .split("</MessageText>")
        .next()
        .unwrap();
    let envelope = String::from_utf8(STANDARD.decode(text).unwrap()).unwrap();
    let names = [
        "ExecutionTag",
        "ClientRequestId",
        "ExpectedExecutionTime",
        "SchedulerJobId",
        "SchedulerJobCollectionId",
        "Region",
        "Message",
    ];
    let places: Vec<_> = names
        .iter()
        .map(|name| envelope.find(&format!("<{name}>")).unwrap())
        .collect();
    assert!(
        places.is_sorted() && envelope.contains("<StorageQueueMessage "),
        "{envelope}"
    );
    assert!(
        envelope.contains("<Message>a &lt; b &amp; ü</Message>"),
        "{envelope}"
    );
    assert!(envelope.contains("<SchedulerJobId>q</SchedulerJobId>"));
    assert_eq!(
        stage.ask("GET", &job("q"), None).await.body["properties"]["state"],
        "Completed"
    );
}
