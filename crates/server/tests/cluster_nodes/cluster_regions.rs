//! Regions that are killed, frozen and cut off.
//!
//! The test command runs few jobs; `cargo xtask soak regions` as many as the
//! specification asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_harness::reserve_port;

use crate::regions::{self, Heard, Pair, jobs, now};
use crate::running;

/// How many jobs a test makes.
fn amount() -> usize {
    let rounds = std::env::var("STEADFAST_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// The first delivery of another region after the owner's last sign of life.
const SOON: Duration = Duration::from_secs(15);

/// The longest pause of a planned hand-over.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a region waits for the other one before it works alone, on a busy machine.
const ALONE: Duration = Duration::from_secs(9);

/// A job that runs every second, jobs that run every 10 s, jobs that run once, and jobs
/// whose target always fails.
fn fill(pair: &Pair, to: usize, recurring: usize) {
    pair.collection(to, "c");
    pair.put(
        to,
        "tick",
        json!({"properties": {
            "action": pair.action("/tick"),
            "recurrence": {"frequency": "Second", "interval": 1},
        }}),
    );
    for index in 0..recurring {
        pair.put(
            to,
            &format!("every{index}"),
            json!({"properties": {
                "action": pair.action(&format!("/every/{index}")),
                "recurrence": {"frequency": "Second", "interval": 10},
            }}),
        );
    }
    for index in 0..onces(recurring) {
        pair.put(
            to,
            &format!("once{index}"),
            json!({"properties": {
                "startTime": jobs::in_seconds(12 + (recurring / 20 + index % 5) as i64),
                "action": pair.action(&format!("/once/{index}")),
            }}),
        );
    }
    for index in 0..failing(recurring) {
        let mut action = pair.action(&format!("/fail/{index}"));
        action["retryPolicy"] =
            json!({"retryType": "Fixed", "retryInterval": "PT20S", "retryCount": 3});
        pair.put(
            to,
            &format!("fail{index}"),
            json!({"properties": {"action": action}}),
        );
    }
}

/// How many jobs run once.
fn onces(recurring: usize) -> usize {
    (recurring / 20).max(2)
}

/// How many jobs always fail.
fn failing(recurring: usize) -> usize {
    (recurring / 50).max(2)
}

/// Every job is run by this region.
fn all_go_on(pair: &Pair, at: usize, recurring: usize) {
    let every = (0..recurring).map(|index| format!("/every/{index}"));
    let once = (0..onces(recurring)).map(|index| format!("/once/{index}"));
    for path in every.chain(once) {
        let what = format!("{path} from {}", pair.name(at));
        pair.until_heard(&what, |one| {
            let is_his = one.region == pair.name(at) || path.starts_with("/once");
            one.path == path && is_his
        });
    }
    // Retries go on at their number, by the next region.
    for index in 0..failing(recurring) {
        let path = format!("/fail/{index}");
        pair.until_heard("a further attempt", |one| {
            one.path == path && one.attempt_number() > 0 && one.region == pair.name(at)
        });
        let heard = pair.heard();
        let first = heard.iter().filter(|one| one.path == path);
        assert_eq!(first.map(Heard::attempt_number).min(), Some(0), "{path}");
    }
}

/// What came twice was under way when its region was lost: what came of it at first is
/// recorded nowhere, so that there is one record of the two.
fn only_in_flight_twice(pair: &Pair, lost: usize, heard: &[Heard]) {
    for attempt in twice(heard) {
        let both = heard.iter().filter(|one| one.attempt() == attempt);
        let (former, later): (Vec<_>, Vec<_>) = both.partition(|one| one.region == pair.name(lost));
        let (&[_], &[again]) = (&former[..], &later[..]) else {
            panic!("{attempt} came more than twice: {former:?} {later:?}");
        };
        let records = running::until("what came of it is recorded", || {
            let records = pair.records(1 - lost, again);
            (!records.is_empty()).then_some(records)
        });
        assert_eq!(records.len(), 1, "{attempt} was repeated: {records:?}");
    }
}

/// Two calls that home gets no answer to: one may be repeated, one may not.
fn hold(pair: &Pair, through: usize) {
    for policy in ["rerun", "skip"] {
        let job = json!({"properties": {
            "action": pair.action(&format!("/held/{policy}")),
            "steadfast": {"inFlight": policy},
        }});
        pair.put(through, policy, job);
    }
    pair.heard_from(pair.home(), &["/held/rerun", "/held/skip"]);
}

/// Definitions and counters of all jobs, by name.
fn shown(pair: &Pair, at: usize) -> BTreeMap<String, Value> {
    let all = pair.list(at);
    let all = all.iter();
    all.map(|job| {
        // Its collection stands in front.
        let (_, name) = job["name"].as_str().unwrap().split_once('/').unwrap();
        (name.to_owned(), job["properties"].clone())
    })
    .collect()
}

/// What no two attempts share: occurrence, action and attempt.
fn twice(heard: &[Heard]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let repeated = heard.iter().filter(|one| !seen.insert(one.attempt()));
    repeated.map(Heard::attempt).collect()
}

/// The fault test: the owner is killed and its store deleted.
#[test]
fn jobs_46_48_a_killed_region_is_followed_and_gets_its_jobs_back() {
    let mut pair = Pair::start();
    let home = pair.home();
    let other = 1 - home;
    fill(&pair, other, amount());
    pair.fill_other(home);
    hold(&pair, other);
    pair.synced(home);
    pair.heard_from(home, &["/every/0", "/fail/0"]);
    let count_before = pair.heard().len();
    let before = shown(&pair, home);
    // A client creates jobs until the last moment.
    let making = pair.make_until_lost(home);
    running::until("some jobs are made", || {
        let status = pair.get(other, "/jobs/near9").0;
        (status == StatusCode::OK).then_some(())
    });
    let began = now();
    pair.kill(home);
    let acknowledged = pair.made(making);
    let first = pair.first_from(other);
    let took = first.duration_since(began);
    println!("kill -9: the first delivery of the other region came after {took:?}");
    assert!(took <= pair.allowed(SOON), "{took:?}");
    // REST works there meanwhile, and all jobs are there.
    let mut after = shown(&pair, other);
    println!("{} jobs were made until the kill", acknowledged.len());
    for name in &acknowledged {
        assert!(after.contains_key(name), "{name} was acknowledged");
    }
    after.retain(|name, _| !name.starts_with("near"));
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    for (name, job) in &before {
        for part in ["action", "recurrence", "startTime"] {
            assert_eq!(job[part], after[name][part], "{name}");
        }
        for part in ["executionCount", "failureCount", "faultedCount"] {
            let (was, is) = (
                job["status"][part].as_u64(),
                after[name]["status"][part].as_u64(),
            );
            assert!(was <= is, "{name}: {part} was {was:?} and is {is:?}");
        }
        // What is counted since is also heard: it is claimed, and called then.
        let path = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let path = format!("/{path}/{}", &name[path.len()..]);
        let count = |job: &Value| job["status"]["executionCount"].as_u64().unwrap_or(0);
        let more = count(&after[name]) - count(job);
        if name.starts_with("every") {
            running::until(&format!("{name}: {more} more calls"), || {
                let heard = pair.heard();
                let since = heard[count_before..].iter();
                let since = since.filter(|one| one.path == path).count();
                (more <= since as u64).then_some(())
            });
        }
    }
    let (status, headers, collection) = pair.get(other, "");
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["x-steadfast-replication"], "degraded");
    let replication = &collection["properties"]["steadfast"]["replication"];
    assert_eq!(replication["owner"], pair.name(other), "{collection}");
    assert_eq!(replication["mode"], "degraded");
    assert_eq!(replication["epoch"], 2);
    assert!(replication["lagMs"].as_u64() > Some(0), "{collection}");
    assert_eq!(collection["location"], pair.name(home));
    pair.put(
        other,
        "late",
        json!({"properties": {"action": pair.action("/late")}}),
    );
    pair.heard_from(other, &["/late"]);
    all_go_on(&pair, other, amount());
    what_was_in_flight_is_repeated_or_not(&pair, other);
    // An empty server comes back: it gets everything and runs nothing.
    pair.restart_empty(home);
    pair.synced(other);
    let heard = pair.heard();
    let late = heard.iter().filter(|one| one.at > first);
    let mut late = late.filter(|one| one.region != pair.name(other));
    assert!(late.next().is_none(), "the lost region has sent something");
    // Nothing is missing: of each job every occurrence came.
    let doubled = twice(&heard);
    println!(
        "{} deliveries, {} of them twice",
        heard.len(),
        doubled.len()
    );
    only_in_flight_twice(&pair, home, &heard);
    pair.no_gaps(&heard, 10);
    // And back, without a duplicate, while a call is in hand.
    let patient = json!({"properties": {"action": pair.action("/patient")}});
    pair.put(other, "patient", patient);
    pair.heard_from(other, &["/patient"]);
    let count = pair.heard().len();
    let began = now();
    let asking = pair.begin_command(other, &["region", "failback"]);
    pair.resting(other);
    pair.owned_by(other);
    assert!(!asking.is_finished(), "the call was not waited for");
    pair.answer_the_patient();
    let (code, said) = asking.join().unwrap();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(pair.name(home)), "{said}");
    println!("failback took {:?}", began.elapsed());
    pair.first_from_since(home, count);
    pair.owned_by(home);
    pair.until_heard("a tick from home", |one| {
        one.path == "/tick" && one.region == pair.name(home) && one.at > began
    });
    let heard = pair.heard();
    let later: Vec<_> = twice(&heard).difference(&doubled).cloned().collect();
    assert!(later.is_empty(), "failback sent twice: {later:?}");
    let ticks = heard.iter().filter(|one| one.path == "/tick");
    let ticks: Vec<_> = ticks.filter(|one| one.at + PAUSE * 2 > began).collect();
    let gaps = ticks.windows(2).map(|two| two[1].at - two[0].at);
    let pause = gaps.max().unwrap().saturating_sub(Duration::from_secs(1));
    println!("the pause of the failback was {pause:?}");
    assert!(pause <= pair.allowed(PAUSE), "{pause:?}");
    let epochs: Vec<_> = heard[count..].iter().map(|one| one.epoch).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    pair.no_gaps(&heard, 10);
    jobs_50_no_job_data_in_the_witness(&pair);
    jobs_of_the_region_that_lived_never_changed_hands(&pair, other);
}

/// The other home's job ran there all the time, in its first epoch. It stood still only
/// until its region worked alone.
fn jobs_of_the_region_that_lived_never_changed_hands(pair: &Pair, at: usize) {
    let heard = pair.heard_other();
    let strange = heard
        .iter()
        .find(|one| one.region != pair.name(at) || one.epoch != 1);
    assert!(strange.is_none(), "{strange:?}");
    assert_eq!(twice(&heard), BTreeSet::new());
    let gaps = heard.windows(2).map(|two| two[1].at - two[0].at);
    let longest = gaps.max().unwrap();
    println!("jobs of the region that lived stood still for {longest:?}");
    assert!(longest <= pair.allowed(ALONE), "{longest:?}");
}

/// Two calls had no answer when the owner was killed.
fn what_was_in_flight_is_repeated_or_not(pair: &Pair, other: usize) {
    pair.heard_from(other, &["/held/rerun"]);
    let what = "the attempt of the careful job is recorded";
    let items = running::until(what, || {
        let (_, _, history) = pair.get(other, "/jobs/skip/history");
        let items = history["value"].as_array()?.clone();
        (!items.is_empty()).then_some(items)
    });
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0]["properties"]["status"], "Failed", "{items:?}");
    let message = items[0]["properties"]["message"].as_str().unwrap();
    assert!(message.contains("inFlight is skip"), "{message}");
    let (_, _, job) = pair.get(other, "/jobs/skip");
    assert_eq!(job["properties"]["state"], "Faulted", "{job}");
    let heard = pair.heard();
    let calls = |path: &str| heard.iter().filter(|one| one.path == path).count();
    assert_eq!((calls("/held/rerun"), calls("/held/skip")), (2, 1));
}

/// Looks into every file of the witness.
fn jobs_50_no_job_data_in_the_witness(pair: &Pair) {
    let bytes = pair.witness_bytes();
    assert!(bytes.len() > 100);
    for secret in [
        "every0",
        "once0",
        "/every/",
        "127.0.0.1",
        "fail0",
        "executionCount",
    ] {
        let found = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "the witness has '{secret}'");
    }
    // What it has: keys of leases, with epochs.
    let key = b"region/vote/jobs@";
    assert!(bytes.windows(key.len()).any(|part| part == key));
}

mod jobs_50_no_job_data_is_in_the_witness {
    use super::*;

    /// Jobs that run again and again: fewer, or as many as the soak says.
    fn jobs_here() -> usize {
        match std::env::var("STEADFAST_ROUNDS") {
            Ok(_) => amount(),
            Err(_) => 6,
        }
    }

    /// How long a region stands still.
    const FROZEN: Duration = Duration::from_secs(30);

    /// Both at once, each with servers of its own: they mostly wait.
    #[test]
    fn jobs_46_47_regions_that_are_frozen_or_cut_off_are_followed() {
        std::thread::scope(|scope| {
            let frozen = scope.spawn(a_frozen_region_sends_nothing_with_an_old_epoch);
            a_region_that_is_cut_off_shows_what_it_has_and_changes_nothing();
            frozen.join().unwrap();
        });
    }

    fn a_frozen_region_sends_nothing_with_an_old_epoch() {
        let pair = Pair::start();
        let home = pair.home();
        let other = 1 - home;
        fill(&pair, home, jobs_here());
        pair.synced(home);
        pair.heard_from(home, &["/every/0"]);
        hold(&pair, home);
        let began = now();
        pair.signal(home, Signal::STOP);
        let first = pair.first_from(other);
        println!(
            "SIGSTOP: the first delivery of the other region came after {:?}",
            first.duration_since(began)
        );
        assert!(first.duration_since(began) <= pair.allowed(SOON));
        all_go_on(&pair, other, jobs_here());
        what_was_in_flight_is_repeated_or_not(&pair, other);
        std::thread::sleep(FROZEN.saturating_sub(began.elapsed()));
        let count = pair.heard().len();
        pair.signal(home, Signal::CONT);
        // It finds out, follows, and is up to date again.
        pair.synced(other);
        pair.until_count(count + 2 * jobs_here());
        let heard = pair.heard();
        let old: Vec<_> = heard[count..]
            .iter()
            .filter(|one| one.region == pair.name(home))
            .collect();
        assert!(old.is_empty(), "sent with an old epoch: {old:?}");
        only_in_flight_twice(&pair, home, &heard);
        pair.no_gaps(&heard, 10);
        // Either region's address answers for both.
        for at in [home, other] {
            let (status, headers, collection) = pair.get(at, "");
            assert_eq!(status, StatusCode::OK, "{collection}");
            assert!(!headers.contains_key("x-steadfast-stale"));
            let replication = &collection["properties"]["steadfast"]["replication"];
            assert_eq!(replication["owner"], pair.name(other));
            assert_eq!(replication["mode"], "synced");
        }
        jobs_50_no_job_data_in_the_witness(&pair);
    }

    /// The network: first between the regions only, then around the owner.
    fn a_region_that_is_cut_off_shows_what_it_has_and_changes_nothing() {
        let pair = Pair::start();
        let home = pair.home();
        let other = 1 - home;
        fill(&pair, home, jobs_here());
        pair.synced(home);
        pair.heard_from(home, &["/every/0"]);
        // Between the regions: the owner goes on alone.
        pair.cut_between(true);
        let began = now();
        pair.put(
            home,
            "alone",
            json!({"properties": {"action": pair.action("/alone")}}),
        );
        println!("the owner worked alone after {:?}", began.elapsed());
        let (_, headers, _) = pair.get(home, "");
        assert_eq!(headers["x-steadfast-replication"], "degraded");
        let metrics = pair.metrics(home);
        assert!(
            metrics.contains("region_degraded{home=\"East US\"} 1"),
            "{metrics}"
        );
        assert!(metric(&metrics, "region_lag_seconds") > 0.0, "{metrics}");
        // The other one shows what it has, and says so.
        let (status, headers, _) = pair.get(other, "/jobs/every0");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["x-steadfast-stale"], "true");
        assert_eq!(pair.get(other, "/jobs/alone").0, StatusCode::NOT_FOUND);
        let refused = pair.try_put(
            other,
            "no",
            &json!({"properties": {"action": pair.action("/no")}}),
        );
        assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
        pair.cut_between(false);
        pair.synced(home);
        assert_eq!(pair.get(other, "/jobs/alone").0, StatusCode::OK);
        // Around the owner: the other one follows it.
        hold(&pair, home);
        let began = now();
        pair.cut_off(home, true);
        let first = pair.first_from(other);
        println!(
            "cut off: the first delivery of the other region came after {:?}",
            first.duration_since(began)
        );
        assert!(first.duration_since(began) <= pair.allowed(SOON));
        let (status, headers, _) = pair.get(home, "/jobs/every0");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["x-steadfast-stale"], "true");
        let refused = pair.try_put(
            home,
            "no",
            &json!({"properties": {"action": pair.action("/no")}}),
        );
        assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
        all_go_on(&pair, other, jobs_here());
        what_was_in_flight_is_repeated_or_not(&pair, other);
        pair.cut_off(home, false);
        pair.synced(other);
        let heard = pair.heard();
        let late = heard.iter().filter(|one| one.at > first);
        let old = late.filter(|one| one.region == pair.name(home));
        assert_eq!(old.count(), 0, "who was cut off has sent something");
        only_in_flight_twice(&pair, home, &heard);
        pair.no_gaps(&heard, 10);
        jobs_50_no_job_data_in_the_witness(&pair);
    }
}

/// Both regions must have every change.
const STRICT: &str = "[[region]]\nname = \"East US\"\ngeography = \"United States\"\n\
                      pair = \"West US\"\nrequire_sync = true\n";

#[test]
fn a_pair_is_led_by_commands_and_refuses_what_only_one_region_would_have() {
    let mut pair = Pair::start_with(STRICT);
    let home = pair.home();
    let other = 1 - home;
    pair.collection(home, "c");
    let job = json!({"properties": {"action": pair.action("/late")}});
    pair.put(home, "first", job.clone());
    // Who follows looks around twice in a second.
    running::until("the other region knows the owner", || {
        (pair.standing(other, home)["mode"] == "following").then_some(())
    });
    let status = pair.command(other, &["region", "status"]);
    for line in [
        "region           West US",
        "reaches witness  true",
        "East US  East US  1      following",
        "West US  West US  1      synced",
    ] {
        assert!(status.contains(line), "{status}");
    }
    // There and back, by hand.
    pair.command(other, &["region", "failover"]);
    pair.synced(other);
    let metrics = pair.metrics(other);
    for (name, expected) in [
        ("region_owner", 1.0),
        ("region_epoch", 2.0),
        ("region_takeovers_total", 1.0),
        ("region_fenced_total", 0.0),
        ("region_degraded", 0.0),
    ] {
        assert_eq!(metric(&metrics, name), expected, "{name}");
    }
    pair.put(other, "second", job.clone());
    pair.command(other, &["region", "failback"]);
    pair.synced(home);
    // The other region is lost while a change is made, and then before one is made.
    pair.cut_between(true);
    let refused = pair.refused(home, "third", &job);
    assert!(refused.contains("STF-7036"), "{refused}");
    let refused = pair.refused(home, "fourth", &job);
    assert!(refused.contains("STF-7035"), "{refused}");
    let refused = pair.refused(other, "fourth", &job);
    assert!(refused.contains("STF-7033"), "{refused}");
    pair.cut_between(false);
    pair.synced(home);
    pair.put(home, "fourth", job.clone());
    // Calls that do not end hold it up.
    let held = json!({"properties": {"action": pair.action("/held/long")}});
    pair.put(home, "held", held);
    pair.heard_from(home, &["/held/long"]);
    let (code, said) = pair.try_command(other, &["region", "failover"]);
    assert!(code != 0 && said.contains("STF-7034"), "{said}");
    pair.owned_by(home);
    // An owner that worked alone and is gone: only a person says that this is all.
    pair.cut_between(true);
    let refused = pair.refused(home, "lost", &job);
    assert!(refused.contains("STF-7036"), "{refused}");
    pair.kill(home);
    pair.cut_between(false);
    let (code, said) = pair.try_command(other, &["region", "failover"]);
    assert!(code != 0 && said.contains("STF-7034"), "{said}");
    running::until("the loss is accepted", || {
        let accepted = ["region", "failover", "--accept-loss"];
        (pair.try_command(other, &accepted).0 == 0).then_some(())
    });
    pair.owned_by(other);
    for name in ["first", "second", "fourth", "held"] {
        assert_eq!(pair.get(other, &format!("/jobs/{name}")).0, StatusCode::OK);
    }
    assert_eq!(pair.get(other, "/jobs/lost").0, StatusCode::NOT_FOUND);
}

/// The value of a metric for the jobs of the first home.
fn metric(all: &str, name: &str) -> f64 {
    let start = format!("{name}{{home=\"East US\"}} ");
    let line = all.lines().find_map(|line| line.split_once(&start));
    let (_, value) = line.unwrap_or_else(|| panic!("no {name}: {all}"));
    value.parse().unwrap()
}

/// Both files declare the same collection.
const DECLARED: &str = "[[job_collection]]\nsubscription = \"s\"\nresource_group = \"g\"\n\
                        name = \"d\"\nlocation = \"westus\"\n";

#[test]
fn each_collection_has_a_home_and_both_regions_work_at_once() {
    let pair = Pair::start_with(DECLARED);
    let (east, west) = (pair.home(), 1 - pair.home());
    // Each is made through the other region.
    pair.collection(west, "c");
    pair.put(
        west,
        "tick",
        json!({"properties": {
            "action": pair.action("/tick"),
            "recurrence": {"frequency": "Second", "interval": 1},
        }}),
    );
    pair.fill_other(east);
    pair.heard_from(east, &["/tick"]);
    running::until("the other region runs its own", || {
        pair.heard_other().first().cloned()
    });
    let regions: BTreeSet<_> = pair.heard_other().iter().map(place_of).collect();
    assert_eq!(regions, [(pair.name(west).to_owned(), 1)].into());
    let regions: BTreeSet<_> = pair.heard().iter().map(place_of).collect();
    assert_eq!(regions, [(pair.name(east).to_owned(), 1)].into());
    // Where nothing is said, it is made where it was asked for.
    let nowhere = json!({"properties": {}});
    let (status, _, made) = pair.request(west, Method::PUT, "/n", Some(&nowhere));
    assert_eq!(
        (status, &made["location"]),
        (StatusCode::CREATED, &json!("West US"))
    );
    running::until("what is declared is there", || {
        let (status, ..) = pair.request(east, Method::GET, "/d", None);
        (status == StatusCode::OK).then_some(())
    });
    for at in [east, west] {
        let (_, _, list) = pair.request(at, Method::GET, "", None);
        let shown = list["value"].as_array().unwrap().iter();
        let shown: Vec<_> = shown
            .map(|one| {
                let replication = &one["properties"]["steadfast"]["replication"];
                assert_eq!(replication["mode"], "synced", "{one}");
                (&one["name"], &one["location"], &replication["owner"])
            })
            .map(|(name, location, owner)| format!("{name} {location} {owner}"))
            .collect();
        let expected = [
            r#""c" "East US" "East US""#,
            r#""d" "West US" "West US""#,
            r#""n" "West US" "West US""#,
            r#""o" "West US" "West US""#,
        ];
        assert_eq!(shown, expected);
        // A collection does not move.
        for (name, place) in [("/c", "West US"), ("/o", "East US")] {
            let body = json!({"location": place, "properties": {}});
            let (status, _, answer) = pair.request(at, Method::PUT, name, Some(&body));
            assert_eq!(status, StatusCode::CONFLICT, "{answer}");
            assert_eq!(answer["error"]["code"], "InvalidResourceLocation");
        }
        let (status, _, answer) = pair.request(at, Method::GET, "/none", None);
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    }
    // Deleted in one home, made in the other, and back.
    for (at, place) in [(east, "East US"), (west, "West US")] {
        let (status, _, answer) = pair.request(1 - at, Method::DELETE, "/n", None);
        assert_eq!(status, StatusCode::OK, "{answer}");
        let body = json!({"location": place, "properties": {}});
        let (status, _, answer) = pair.request(at, Method::PUT, "/n", Some(&body));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(answer["location"], place);
    }
    a_name_is_used_once(&pair);
    // One home's jobs go over by themselves.
    pair.command(east, &["region", "failover", "--home", "westus"]);
    pair.synced_home(east, west);
    assert_eq!(pair.standing(west, east)["epoch"], 1);
    running::until("the other home's job runs here", || {
        let heard = pair.heard_other();
        let moved = heard.iter().find(|one| one.region == pair.name(east))?;
        assert_eq!(moved.epoch, 2);
        Some(())
    });
    pair.command(east, &["region", "failback"]);
    pair.synced_home(west, west);
    assert_eq!(pair.standing(west, west)["epoch"], 3);
    assert_eq!(pair.standing(west, east)["epoch"], 1);
}

fn place_of(one: &Heard) -> (String, u64) {
    (one.region.clone(), one.epoch)
}

/// Both regions are asked at once for a collection of the same name, each for its own.
fn a_name_is_used_once(pair: &Pair) {
    let mut winners = BTreeMap::new();
    for round in 0..20 {
        let path = format!("/race{round}");
        let made = pair.both_make(&path);
        let won = made.iter().position(|one| *one == StatusCode::CREATED);
        let won = won.unwrap_or_else(|| panic!("{path}: {made:?}"));
        assert_eq!(made[1 - won], StatusCode::CONFLICT, "{path}: {made:?}");
        *winners.entry(won).or_insert(0) += 1;
        for at in [0, 1] {
            let (_, _, shown) = pair.request(at, Method::GET, &path, None);
            assert_eq!(shown["location"], pair.name(won), "{path}");
        }
    }
    println!("a name that both regions wanted went to {winners:?}");
}

/// Regions with different keys know nothing of one another, and say why.
#[test]
fn a_region_with_another_key_is_refused() {
    let ports = [reserve_port().unwrap(), reserve_port().unwrap()];
    let keys = ["a", "b"].map(|letter| letter.repeat(32));
    let start = |index: usize, name: &str| {
        regions::set_up(name, ports[index])
            .set(&format!("cluster.key={}", keys[index]))
            .set(&format!("jobs.pair=127.0.0.1:{}", ports[1 - index]))
            .ready()
    };
    let servers = [start(0, "East US"), start(1, "West US")];
    for server in &servers {
        let log = server.logged("region.refused");
        let line = log.lines().find(|line| line.contains("region.refused"));
        let line = line.unwrap();
        assert!(line.contains("STF-7010") && line.contains("WARN"), "{line}");
        let (_, standing) = server.get("/v1/region");
        assert_eq!(standing["reaches_pair"], false, "{standing}");
        for home in standing["homes"].as_array().unwrap() {
            assert_eq!(home["is_owner"], false, "{standing}");
        }
    }
}

#[test]
fn jobs_49_a_pair_across_geographies_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[region]]\nname = \"Bremen\"\ngeography = \"Germany\"\npair = \"Paris\"\n\n\
                  [[region]]\nname = \"Paris\"\ngeography = \"France\"\n";
    std::fs::write(folder.path().join("steadfast.toml"), config).unwrap();
    let refused = running::run(folder.path(), &["serve", "--config", "steadfast.toml"]);
    let (code, _, errors) = running::said(&refused);
    assert_ne!(code, 0);
    assert!(errors.contains("STF-7030"), "{errors}");
    assert!(
        errors.contains("Germany") && errors.contains("France"),
        "{errors}"
    );
    // Nothing was opened.
    assert!(!folder.path().join("steadfast-data").exists());
    let folder = tempfile::tempdir().unwrap();
    let refused = running::run(
        folder.path(),
        &[
            "serve",
            "--set",
            "jobs.region=Atlantis",
            "--set",
            "jobs.pair=a:1",
        ],
    );
    let (code, _, errors) = running::said(&refused);
    assert_ne!(code, 0);
    assert!(errors.contains("STF-7031"), "{errors}");
}
