//! Event hubs come, change and go.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, Timestamp, VirtualClock};
use steadfast_core::limits;
use steadfast_events::{
    AccessPolicy, CheckpointCondition, DeadLetter, ErrorKind, EventDataBatch, EventHubChange,
    EventHubDefinition, EventPosition, EventRetention, GroupPartitionStatus, ReaderOptions, Rights,
    Sealer,
};

use crate::setup::{Node, bodies, one, open, open_sealed, open_with, start};

#[tokio::test]
async fn names_are_compared_without_regard_to_case() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("Telemetry", 3))
        .await
        .unwrap();
    let again = node
        .hubs
        .create(EventHubDefinition::new("TELEMETRY", 3))
        .await
        .unwrap_err();
    assert_eq!(
        (again.kind(), again.code().0),
        (ErrorKind::Exists, "STF-5004")
    );
    assert_eq!(node.hubs.get("telemetry").await.unwrap().name, "Telemetry");
    let missing = node.hubs.get("other").await.unwrap_err();
    assert_eq!(
        (missing.kind(), missing.code().0),
        (ErrorKind::HubNotFound, "STF-5001")
    );
    assert_eq!(
        missing.message(),
        "The messaging entity 'other' could not be found."
    );
}

#[tokio::test]
async fn definitions_are_listed_and_kept() {
    let node = start().await;
    for name in ["b", "a", "c"] {
        node.hubs
            .create(EventHubDefinition::new(name, 1))
            .await
            .unwrap();
    }
    node.hubs.delete("c").await.unwrap();
    let folder = node.stop().await.unwrap();
    let node = open(folder.path()).await;
    let names: Vec<_> = node
        .hubs
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|hub| hub.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
    let bad = node
        .hubs
        .create(EventHubDefinition::new("a b", 1))
        .await
        .unwrap_err();
    assert_eq!(
        (bad.kind(), bad.code().0),
        (ErrorKind::BadDefinition, "STF-5005")
    );
}

#[tokio::test]
async fn ensuring_makes_or_brings_in_line() {
    let node = start().await;
    let wanted = EventHubDefinition::new("a", 2).group("web");
    let first = node.hubs.ensure(wanted.clone()).await.unwrap();
    let same = node.hubs.ensure(wanted.clone()).await.unwrap();
    assert_eq!(first, same);
    node.hubs
        .change("a", EventHubChange::AddGroup("by hand".replace(' ', "-")))
        .await
        .unwrap();
    let wanted = wanted.group("app");
    let hub = node.hubs.ensure(wanted).await.unwrap();
    let groups: Vec<_> = hub.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(groups, ["$Default", "web", "by-hand", "app"]);
    let other = node
        .hubs
        .ensure(EventHubDefinition::new("a", 3))
        .await
        .unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Exists);
}

#[tokio::test]
async fn groups_and_policies_come_and_go() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    let change = |change| node.hubs.change("a", change);
    change(EventHubChange::AddGroup("Web".into()))
        .await
        .unwrap();
    let again = change(EventHubChange::AddGroup("wEB".into()))
        .await
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    let attach = || ReaderOptions::at(EventPosition::Latest);
    let reader = node.hubs.reader("a", "web", 0, attach()).await.unwrap();
    node.hubs
        .advance("a", "web", 0, (3, 30), CheckpointCondition::Always)
        .await
        .unwrap();
    change(EventHubChange::RemoveGroup("web".into()))
        .await
        .unwrap();
    assert_eq!(reader.check().unwrap_err().kind(), ErrorKind::GroupNotFound);
    let gone = node
        .hubs
        .reader("a", "web", 0, attach())
        .await
        .err()
        .unwrap();
    assert_eq!(
        (gone.kind(), gone.code().0),
        (ErrorKind::GroupNotFound, "STF-5002")
    );
    change(EventHubChange::AddGroup("web".into()))
        .await
        .unwrap();
    let default = change(EventHubChange::RemoveGroup("$default".into()))
        .await
        .unwrap_err();
    assert_eq!(default.kind(), ErrorKind::BadDefinition);
    let policy = |name: &str| AccessPolicy {
        name: name.into(),
        rights: Rights {
            send: true,
            ..Rights::default()
        },
        primary: "key one".into(),
        secondary: "key two".into(),
    };
    let hub = change(EventHubChange::PutPolicy(policy("sender")))
        .await
        .unwrap();
    assert_eq!(hub.policy("sender").unwrap().primary, "key one");
    for number in 0..11 {
        change(EventHubChange::PutPolicy(policy(&number.to_string())))
            .await
            .unwrap();
    }
    assert!(
        change(EventHubChange::PutPolicy(policy("one too many")))
            .await
            .is_err()
    );
    let hub = change(EventHubChange::RemovePolicy("sender".into()))
        .await
        .unwrap();
    assert!(hub.policy("sender").is_none());
}

/// Writes its name in front of what it seals, and opens nothing else.
struct Named(&'static str);

impl Sealer for Named {
    fn seal(&self, _: &str, text: &str) -> String {
        format!("{}:{text}", self.0)
    }

    fn open(&self, _: &str, stored: &str) -> Option<String> {
        match stored.split_once(':') {
            Some((name, text)) => (name == self.0).then(|| text.to_owned()),
            None => Some(stored.to_owned()),
        }
    }
}

#[tokio::test]
async fn keys_of_before_are_sealed_when_their_event_hub_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let mut definition = EventHubDefinition::new("a", 1);
    definition.policies.push(AccessPolicy {
        name: "clients".into(),
        rights: Rights::default(),
        primary: "one".into(),
        secondary: "two".into(),
    });
    node.hubs.create(definition).await.unwrap();
    node.stop().await;
    let node = open_sealed(folder.path(), Arc::new(Named("key"))).await;
    let read = node.hubs.list().await.unwrap();
    assert_eq!(read[0].policies[0].primary, "one");
    node.stop().await;
    // As it is stored.
    let node = open(folder.path()).await;
    let stored = node.hubs.get("a").await.unwrap();
    assert_eq!(stored.policies[0].primary, "key:one");
    assert_eq!(stored.policies[0].secondary, "key:two");
}

#[tokio::test]
async fn a_policy_whose_keys_do_not_open_counts_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let policy = |number: usize| {
        EventHubChange::PutPolicy(AccessPolicy {
            name: number.to_string(),
            rights: Rights::default(),
            primary: "one".into(),
            secondary: "two".into(),
        })
    };
    let node = open_sealed(folder.path(), Arc::new(Named("before"))).await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    for number in 0..limits::HUB_POLICIES {
        node.hubs.change("a", policy(number)).await.unwrap();
    }
    node.stop().await;
    // As after a restore with another secret.
    let node = open_sealed(folder.path(), Arc::new(Named("after"))).await;
    assert!(node.hubs.get("a").await.unwrap().policies.is_empty());
    let full = node.hubs.change("a", policy(100)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::BadDefinition);
    let remove = |name: &str| {
        node.hubs
            .change("a", EventHubChange::RemovePolicy(name.into()))
    };
    remove("0").await.unwrap();
    let again = remove("0").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::PolicyNotFound);
    node.hubs.change("a", policy(100)).await.unwrap();
    // One that is replaced opens, and the others stay.
    let hub = node.hubs.change("a", policy(1)).await.unwrap();
    assert_eq!(hub.policies.len(), 2);
    assert!(node.hubs.change("a", policy(101)).await.is_err());
    node.stop().await;
    let node = open_sealed(folder.path(), Arc::new(Named("before"))).await;
    let kept = node.hubs.get("a").await.unwrap().policies.len();
    assert_eq!(kept, limits::HUB_POLICIES - 2);
}

#[tokio::test]
async fn a_deleted_event_hub_takes_everything_along() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    node.send("a", 0, &["x"]).await;
    node.hubs
        .advance("a", "$Default", 0, (0, 5), CheckpointCondition::Forward)
        .await
        .unwrap();
    let sender = node.hubs.sender("a", Some(0)).await.unwrap();
    let reader = node.read("a", 0, EventPosition::Earliest).await;
    node.hubs.delete("a").await.unwrap();
    assert_eq!(reader.check().unwrap_err().kind(), ErrorKind::HubNotFound);
    assert_eq!(
        node.hubs.sender("a", None).await.err().unwrap().kind(),
        ErrorKind::HubNotFound
    );
    // Slots learn of it by message.
    let late = async {
        while sender.send(one("late")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sender.send(one("late")).await.unwrap_err()
    };
    let error = tokio::time::timeout(Duration::from_secs(5), late)
        .await
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::HubNotFound);
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    assert!(node.all("a", 0).await.is_empty());
    assert_eq!(
        node.hubs.checkpoint("a", "$Default", 0).await.unwrap(),
        None
    );
    node.send("a", 0, &["new"]).await;
    let events = node.all("a", 0).await;
    assert_eq!(
        (bodies(&events), events[0].sequence),
        (vec!["new".to_owned()], 0)
    );
}

#[tokio::test]
async fn checkpoints_go_forward_unless_told_otherwise() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    let advance = |sequence, condition| {
        node.hubs
            .advance("a", "$DEFAULT", 1, (sequence, sequence * 10), condition)
    };
    assert_eq!(
        node.hubs.checkpoint("a", "$Default", 1).await.unwrap(),
        None
    );
    advance(5, CheckpointCondition::Forward).await.unwrap();
    let back = advance(4, CheckpointCondition::Forward).await.unwrap_err();
    assert_eq!(
        (back.kind(), back.code().0),
        (ErrorKind::CheckpointMoved, "STF-5016")
    );
    advance(4, CheckpointCondition::Always).await.unwrap();
    assert!(advance(9, CheckpointCondition::At(5)).await.is_err());
    advance(9, CheckpointCondition::At(4)).await.unwrap();
    let all = node.hubs.checkpoints("a", "$Default").await.unwrap();
    assert_eq!(all[0], None);
    assert_eq!(
        all[1].map(|found| (found.sequence, found.offset)),
        Some((9, 90))
    );
    let folder = node.stop().await.unwrap();
    let node = open(folder.path()).await;
    let kept = node.hubs.checkpoint("a", "$Default", 1).await.unwrap();
    assert_eq!(kept.unwrap().sequence, 9);
}

async fn first(node: &Node, hub: &str) -> i64 {
    node.hubs.partition(hub, 0).await.unwrap().first_sequence
}

#[tokio::test]
async fn the_oldest_events_go_when_there_are_too_many_bytes() {
    let node = start().await;
    let retention = EventRetention {
        age: None,
        bytes: Some(50_000),
    };
    let definition = EventHubDefinition::new("a", 1).retention(retention);
    node.hubs.create(definition).await.unwrap();
    let sender = node.hubs.sender("a", None).await.unwrap();
    for _ in 0..200 {
        sender
            .send(EventDataBatch::of(&[7; 960]).unwrap())
            .await
            .unwrap();
    }
    let first = first(&node, "a").await;
    assert!((150..=155).contains(&first), "the first is {first}");
    let events = node.all("a", 0).await;
    assert_eq!(
        (events[0].sequence, events.last().unwrap().sequence),
        (first, 199)
    );
    // Below what is kept, reading starts at the head.
    let below = EventPosition::Sequence {
        sequence: 3,
        inclusive: true,
    };
    let mut reader = node.read("a", 0, below).await;
    let mut publication = reader.next().await.unwrap();
    assert_eq!(publication.next_event().unwrap().unwrap().sequence, first);
    let below = EventPosition::Offset {
        offset: 0,
        inclusive: false,
    };
    let mut reader = node.read("a", 0, below).await;
    let mut publication = reader.next().await.unwrap();
    assert_eq!(publication.next_event().unwrap().unwrap().sequence, first);
}

/// A node whose clock a test moves.
async fn with_clock(clock: &VirtualClock) -> (Node, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    (open_with(folder.path(), clock).await, folder)
}

/// Moves the clock on, and wakes the partition.
async fn pass(node: &Node, clock: &VirtualClock, seconds: u64) {
    clock.advance(Duration::from_secs(seconds));
    node.hubs.checkpoint("a", "$Default", 0).await.unwrap();
    node.hubs.checkpoint("a", "$Default", 0).await.unwrap();
}

#[tokio::test]
async fn events_23_old_events_go_and_the_last_number_stays() {
    let clock = VirtualClock::starting_at(Timestamp(1_800_000_000_000));
    let (node, folder) = with_clock(&clock).await;
    let retention = EventRetention {
        age: Some(Duration::from_secs(3600)),
        bytes: None,
    };
    let definition = EventHubDefinition::new("a", 1).retention(retention);
    node.hubs.create(definition).await.unwrap();
    for _ in 0..6 {
        node.send("a", 0, &["x"; 10]).await;
        pass(&node, &clock, 1200).await;
    }
    // Two hours have passed; what came in the last one is here, and not much more.
    let kept = first(&node, "a").await;
    assert!((20..=30).contains(&kept), "the first is {kept}");
    pass(&node, &clock, 7200).await;
    pass(&node, &clock, 60).await;
    let empty = node.hubs.partition("a", 0).await.unwrap();
    assert!(empty.is_empty);
    assert_eq!((empty.first_sequence, empty.last_sequence), (60, 59));
    assert!(empty.last_offset > 0);
    node.stop().await;
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let node = open_with(folder.path(), Arc::clone(&shared)).await;
    assert_eq!(node.hubs.partition("a", 0).await.unwrap(), empty);
    node.send("a", 0, &["y"]).await;
    assert_eq!(node.all("a", 0).await[0].sequence, 60);
    // The timer outlives its node.
    node.stop().await;
    let node = open_with(folder.path(), shared).await;
    let trimmed = async {
        while !node.hubs.partition("a", 0).await.unwrap().is_empty {
            pass(&node, &clock, 3700).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), trimmed)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_retention_can_be_set_later() {
    let clock = VirtualClock::starting_at(Timestamp(1_800_000_000_000));
    let (node, _folder) = with_clock(&clock).await;
    node.hubs
        .create(EventHubDefinition::new("a", 1))
        .await
        .unwrap();
    node.send("a", 0, &["x"; 10]).await;
    pass(&node, &clock, 1_000_000).await;
    assert_eq!(first(&node, "a").await, 0);
    let retention = EventRetention {
        age: Some(Duration::from_secs(60)),
        bytes: None,
    };
    node.hubs
        .change("a", EventHubChange::Retention(retention))
        .await
        .unwrap();
    let trimmed = async {
        while first(&node, "a").await == 0 {
            pass(&node, &clock, 1).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), trimmed)
        .await
        .unwrap();
    assert_eq!(first(&node, "a").await, 10);
}

#[tokio::test]
async fn a_group_that_is_made_again_begins_anew() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 2).group("web"))
        .await
        .unwrap();
    node.hubs.claim("a", "web", 1, 0, "rival").await.unwrap();
    node.hubs
        .advance("a", "web", 1, (3, 30), CheckpointCondition::Always)
        .await
        .unwrap();
    let parked = DeadLetter {
        sequence: 3,
        offset: 30,
        enqueued: Timestamp(1),
        key: None,
        body: "poison".into(),
        attempts: 2,
        reason: "none".into(),
        parked: Timestamp(0),
    };
    node.hubs
        .add_dead_letter("a", "web", 1, parked)
        .await
        .unwrap();
    assert_eq!(
        node.hubs
            .dead_letters("a", "web", 1, 0, 100)
            .await
            .unwrap()
            .len(),
        1
    );
    node.hubs
        .change("a", EventHubChange::RemoveGroup("web".into()))
        .await
        .unwrap();
    node.hubs
        .change("a", EventHubChange::AddGroup("web".into()))
        .await
        .unwrap();
    // What is kept elsewhere goes by message.
    let gone = async {
        loop {
            let claims = node.hubs.ownerships("a", "web").await.unwrap();
            let checkpoint = node.hubs.checkpoint("a", "web", 1).await.unwrap();
            let parked = node.hubs.dead_letters("a", "web", 1, 0, 100).await.unwrap();
            if claims.is_empty() && checkpoint.is_none() && parked.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_group_shows_its_lag() {
    let node = start().await;
    node.hubs
        .create(EventHubDefinition::new("a", 2))
        .await
        .unwrap();
    node.send("a", 1, &["1", "2", "3"]).await;
    let standings = || async { node.hubs.group_status("a", "$Default").await.unwrap() };
    let lags = |all: &[GroupPartitionStatus]| all.iter().map(|one| one.lag).collect::<Vec<_>>();
    assert_eq!(lags(&standings().await), [0, 3]);
    node.hubs
        .claim("a", "$Default", 1, 0, "rival")
        .await
        .unwrap();
    node.hubs
        .advance("a", "$Default", 1, (1, 9), CheckpointCondition::Forward)
        .await
        .unwrap();
    let all = standings().await;
    assert_eq!(lags(&all), [0, 1]);
    let one = &all[1];
    assert_eq!(
        (
            one.last_sequence,
            one.ownership.as_ref().unwrap().owner.as_str()
        ),
        (2, "rival")
    );
    assert_eq!(node.all("a", 1).await.len(), 3);
    let traffic = node.hubs.traffic();
    assert_eq!(
        (traffic.events_in, traffic.bytes_in, traffic.events_out),
        (3, 3, 3)
    );
}
