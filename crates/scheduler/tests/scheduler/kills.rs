//! Schedulers in their own processes, killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use steadfast_harness::{Process, own_test};
use steadfast_scheduler::Settings;

use crate::stage::{self, COLLECTION, Setup, Stage, Target, VERSION, http_action, job, quick};

const FOLDER: &str = "STEADFAST_JOBS_FOLDER";
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves a folder until it is killed.
async fn serve(folder: &Path) -> ! {
    let settings = Settings {
        allow_seconds: true,
        enforce_quotas: false,
        ..quick()
    };
    let stage = Stage::with(Setup {
        data: Some(folder),
        settings,
        ..Setup::default()
    })
    .await;
    #[expect(clippy::print_stdout, reason = "the parent waits for this line")]
    {
        println!("\nbase {}", stage.base);
    }
    std::future::pending::<()>().await;
    unreachable!("nothing ends it but a signal")
}

struct Child {
    process: Process,
    client: reqwest::Client,
    base: String,
}

impl Child {
    fn start(test: &str, folder: &Path) -> Self {
        let mut command = own_test(module_path!(), test);
        command.env(FOLDER, folder);
        let mut child = Self {
            process: Process::spawn(command).unwrap(),
            client: stage::client(),
            base: String::new(),
        };
        child.find();
        child
    }

    fn find(&mut self) {
        let line = self
            .process
            .wait_for(|line| line.starts_with("base "), PATIENCE)
            .unwrap();
        self.base = line["base ".len()..].to_string();
    }

    fn restart(&mut self) {
        self.process.restart().unwrap();
        self.find();
    }

    async fn put(&self, path: &str, body: serde_json::Value) {
        let url = format!("{}{path}?{VERSION}", self.base);
        let made = self.client.put(url).json(&body).send().await.unwrap();
        assert!(made.status().is_success(), "{}", made.text().await.unwrap());
    }

    /// Waits until it is recorded what came of so many attempts.
    async fn recorded(&self, name: &str, count: usize) {
        let history = format!("{}/history", job(name));
        let recorded = async {
            while self.get(&history).await["value"].as_array().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let recorded = tokio::time::timeout(PATIENCE, recorded).await;
        recorded.expect("the attempt is recorded");
    }

    async fn get(&self, path: &str) -> serde_json::Value {
        let url = format!("{}{path}?{VERSION}", self.base);
        self.client
            .get(url)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn jobs_43_retries_go_on_in_the_next_process() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        serve(folder.as_ref()).await;
    }
    let (folder, target) = (tempfile::tempdir().unwrap(), Target::start());
    let mut child = Child::start("jobs_43_retries_go_on_in_the_next_process", folder.path());
    child.put(COLLECTION, json!({})).await;
    let mut action = http_action(&target.url("/status/500"));
    action["retryPolicy"] = json!({"retryType": "Fixed", "retryInterval": "PT2S", "retryCount": 4});
    child
        .put(&job("j"), json!({"properties": {"action": action}}))
        .await;
    for count in [1, 2, 3] {
        target.wait(count).await;
        child.recorded("j", count).await;
        child.restart();
    }
    let seen = target.wait(5).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(target.seen().len(), 5, "no attempt is lost or repeated");
    let attempts: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("x-steadfast-attempt"))
        .collect();
    assert_eq!(attempts, ["0", "1", "2", "3", "4"]);
    let key = seen[0].header("idempotency-key");
    assert!(
        seen.iter()
            .all(|seen| seen.header("idempotency-key") == key)
    );
    for pair in seen.windows(2) {
        assert!(
            pair[1].at - pair[0].at >= Duration::from_secs(2),
            "not early"
        );
    }
    assert_eq!(child.get(&job("j")).await["properties"]["state"], "Faulted");
}

#[tokio::test]
async fn a_kill_while_sending_repeats_only_what_was_under_way() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        serve(folder.as_ref()).await;
    }
    let (folder, target) = (tempfile::tempdir().unwrap(), Target::start());
    let name = "a_kill_while_sending_repeats_only_what_was_under_way";
    let mut child = Child::start(name, folder.path());
    child.put(COLLECTION, json!({})).await;
    for number in 0..20 {
        let action = http_action(&target.url(&format!("/slow/{}", number * 7 % 40)));
        let recurrence = json!({"frequency": "Second"});
        let properties = json!({"action": action, "recurrence": recurrence});
        child
            .put(
                &job(&format!("j{number}")),
                json!({"properties": properties}),
            )
            .await;
    }
    let mut rng = fastrand::Rng::new();
    let mut kills = 0;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(rng.u64(700..1600))).await;
        child.restart();
        kills += 1;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    child.process.kill().unwrap();
    // Each job's occurrences, by key; none may be missing between first and last.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for seen in target.seen() {
        *counts
            .entry(seen.header("idempotency-key").to_string())
            .or_default() += 1;
    }
    let repeated = counts.values().filter(|count| **count > 1).count();
    // Two kills in a row may meet the same one.
    assert!(counts.values().all(|count| *count <= 3), "{counts:?}");
    assert!(repeated <= 20 * kills, "{repeated} repeated");
    let time = |key: &str| {
        let time = key.rsplit('/').next().unwrap();
        steadfast_core::iso::parse_time(time).unwrap().0
    };
    // The last kill may meet an occurrence before it is sent, and a later one after that.
    let newest = counts.keys().map(|key| time(key)).max().unwrap();
    for number in 0..20 {
        let prefix = format!("sub/rg/jc/j{number}/");
        let times: Vec<_> = counts
            .keys()
            .filter(|key| key.starts_with(&prefix))
            .map(|key| time(key))
            .filter(|time| *time <= newest - 2000)
            .collect();
        assert!(times.len() >= 5, "j{number}: {times:?}");
        for pair in times.windows(2) {
            assert_eq!(pair[1] - pair[0], 1000, "j{number}: {times:?}");
        }
    }
}
