//! Accounts of blobs: counts and limits.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use steadfast_core::clock::{SystemClock, Timestamp, VirtualClock};
use steadfast_core::limits::{BLOB_BLOCK_TIME, BLOB_ENTRY_BYTES, BLOB_STAGE_TIME};
use steadfast_events::{
    BLOB, Blobs, BlockChoice, Conditions, ErrorKind, PutBlobRequest, limit_blob_accounts, register,
};
use steadfast_harness::{Process, own_test};
use steadfast_partition::{
    Address, Service, ServiceKind, Services, Turn, TurnError, TurnOutcome, service_table,
};

use crate::setup::{Node, open, open_services, open_with};

const FOLDER: &str = "STEADFAST_ACCOUNTS_FOLDER";
const BOX: &str = "one/box";
const NONE: Conditions = Conditions {
    only: None,
    not: None,
    after: None,
    until: None,
    lease: None,
};

fn blobs_of(node: &Node) -> Blobs {
    Blobs::new(&node.runtime, node.hubs.clone())
}

async fn open_limited(folder: &Path, limit: u64) -> Node {
    let services = limit_blob_accounts(register(Services::new()), limit);
    open_services(folder, Arc::new(SystemClock::new()), services).await
}

fn put(name: &str, length: usize) -> PutBlobRequest {
    PutBlobRequest {
        name: name.into(),
        body: vec![7; length].into(),
        ..PutBlobRequest::default()
    }
}

/// Bytes and blobs of an account.
async fn taken(blobs: &Blobs, account: &str) -> (u64, u64) {
    let all = blobs.accounts().await.unwrap();
    let found = all.iter().find(|own| own.account == account);
    found.map_or((0, 0), |own| (own.bytes, own.blobs))
}

/// What so many blobs and blocks count, with so many bytes.
fn counted(entries: u64, bytes: u64) -> u64 {
    entries * BLOB_ENTRY_BYTES + bytes
}

async fn stage(blobs: &Blobs, name: &str, id: &str, length: usize) {
    let staged = blobs.stage(BOX, vec![1; length].into()).await.unwrap();
    blobs.put_block(BOX, name, id, staged, NONE).await.unwrap();
}

async fn commit(blobs: &Blobs, name: &str, ids: &[&str]) {
    let choices = ids.iter().map(|id| BlockChoice::Latest((*id).to_owned()));
    let written = blobs.put_blocks(BOX, put(name, 0), choices.collect(), NONE);
    written.await.unwrap();
}

/// Takes the place of the service of blobs, and removes all counts as if an earlier
/// version had written everything.
struct CountEraser;

impl Service for CountEraser {
    type Command = Bytes;
    type Response = ();

    fn kind(&self) -> ServiceKind {
        BLOB
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        _: &Address,
        account: &Bytes,
    ) -> Result<TurnOutcome<()>, TurnError> {
        turn.delete(service_table(BLOB, 6), account);
        turn.delete(service_table(BLOB, 8), account);
        turn.delete(service_table(BLOB, 7), b"");
        Ok(TurnOutcome::Now(()))
    }
}

async fn erase_counts(folder: &Path, accounts: &[&str]) {
    let services = register(Services::new()).with(CountEraser);
    let node = open_services(folder, Arc::new(SystemClock::new()), services).await;
    for partition in node.runtime.space().all() {
        for account in accounts {
            let to = Address::new(BLOB, (*account).to_owned(), "");
            let account = Bytes::copy_from_slice(account.as_bytes());
            let eraser = node.runtime.handle::<CountEraser>();
            eraser.call_in(partition, to, account).await.unwrap();
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn every_kind_of_write_is_counted_exactly() {
    let clock = VirtualClock::starting_at(Timestamp(1_000_000));
    let folder = tempfile::tempdir().unwrap();
    let node = open_with(folder.path(), Arc::new(clock.clone())).await;
    let blobs = blobs_of(&node);
    for container in [BOX, "one/other", "two/box"] {
        blobs.create_container(container, Vec::new()).await.unwrap();
    }
    assert_eq!(taken(&blobs, "one").await, (0, 0));
    blobs.put(BOX, put("a", 5), NONE).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(1, 5), 1));
    blobs.put(BOX, put("a", 300_000), NONE).await.unwrap();
    blobs.put("one/other", put("a", 7), NONE).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(2, 300_007), 2));
    blobs.put(BOX, put("a", 3), NONE).await.unwrap();
    let pairs = vec![("house".to_owned(), "42".to_owned())];
    blobs.describe(BOX, "a", pairs, NONE).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(2, 10), 2));

    // An upload counts before it is a blob.
    let staged = blobs.stage(BOX, vec![1; 262_144].into()).await.unwrap();
    let staged = blobs
        .append(BOX, staged, vec![2; 100].into())
        .await
        .unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(2, 10 + 262_244), 2));
    blobs
        .put_staged(BOX, put("b", 0), staged, NONE)
        .await
        .unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(3, 10 + 262_244), 3));
    let staged = blobs.stage(BOX, vec![1; 50].into()).await.unwrap();
    blobs.discard(BOX, staged).await.unwrap();
    blobs.discard(BOX, staged).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(3, 10 + 262_244), 3));
    blobs.delete(BOX, "b", NONE).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(2, 10), 2));

    // A block is stored once, however often a list names it.
    stage(&blobs, "c", "YQ==", 100).await;
    stage(&blobs, "c", "YQ==", 60).await;
    stage(&blobs, "c", "Yg==", 40).await;
    assert_eq!(taken(&blobs, "one").await, (counted(4, 110), 2));
    commit(&blobs, "c", &["YQ==", "YQ=="]).await;
    assert_eq!(taken(&blobs, "one").await, (counted(5, 70), 3));
    stage(&blobs, "c", "Yw==", 9).await;
    commit(&blobs, "c", &["YQ==", "Yw=="]).await;
    assert_eq!(taken(&blobs, "one").await, (counted(5, 79), 3));
    stage(&blobs, "c", "Yg==", 40).await;
    blobs.put(BOX, put("c", 1), NONE).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(3, 11), 3));

    // Nothing changes by a restart; what is forgotten expires.
    stage(&blobs, "d", "YQ==", 30).await;
    blobs.stage(BOX, vec![1; 20].into()).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(4, 61), 3));
    drop(blobs);
    node.stop().await;
    let node = open_with(folder.path(), Arc::new(clock.clone())).await;
    let blobs = blobs_of(&node);
    assert_eq!(taken(&blobs, "one").await, (counted(4, 61), 3));
    clock.advance(BLOB_STAGE_TIME + BLOB_BLOCK_TIME);
    let expired = async {
        while taken(&blobs, "one").await != (counted(3, 11), 3) {
            // A command makes the partition look at the clock.
            blobs.get(BOX, "a").await.unwrap();
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, expired).await.unwrap();
    blobs.delete_container("one/other").await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (counted(2, 4), 2));
    blobs.delete_container(BOX).await.unwrap();
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    assert_eq!(taken(&blobs, "one").await, (0, 0));
    assert_eq!(taken(&blobs, "two").await, (0, 0));
}

/// Writes and removes at random.
async fn act(blobs: &Blobs, rng: &mut Rng) {
    let container = format!("one/box{}", rng.u8(0..6));
    let name = format!("blob{}", rng.u8(0..5));
    let length = rng.usize(0..3) * rng.usize(0..200_000);
    let choice = |id: &str| BlockChoice::Latest(id.to_owned());
    // Some fail: a container or a block may be absent.
    let _ = match rng.u8(0..10) {
        0 => blobs
            .create_container(&container, Vec::new())
            .await
            .map(drop),
        1 if rng.u8(0..5) == 0 => blobs.delete_container(&container).await,
        1..=3 => {
            let put = put(&name, length);
            blobs.put(&container, put, NONE).await.map(drop)
        }
        4 => blobs.delete(&container, &name, NONE).await,
        5 => {
            let choices = vec![choice("YQ=="), choice("Yg=="), choice("YQ==")];
            let put = put(&name, 0);
            blobs
                .put_blocks(&container, put, choices, NONE)
                .await
                .map(drop)
        }
        6 => blobs
            .stage(&container, vec![1; length].into())
            .await
            .map(drop),
        kind => match blobs.stage(&container, vec![1; length].into()).await {
            Ok(staged) if kind == 7 => {
                let put = put(&name, 0);
                blobs
                    .put_staged(&container, put, staged, NONE)
                    .await
                    .map(drop)
            }
            Ok(staged) => {
                let id = ["YQ==", "Yg=="][rng.usize(0..2)];
                blobs.put_block(&container, &name, id, staged, NONE).await
            }
            Err(error) => Err(error),
        },
    };
}

async fn act_on(node: &Node) {
    let (blobs, mut rng) = (blobs_of(node), Rng::new());
    loop {
        act(&blobs, &mut rng).await;
    }
}

/// What the counts say, and what is there by a scan.
async fn check_counts(folder: &Path) {
    let node = open(folder).await;
    let blobs = blobs_of(&node);
    let counts = taken(&blobs, "one").await;
    drop(blobs);
    node.stop().await;
    erase_counts(folder, &["one"]).await;
    let node = open(folder).await;
    let blobs = blobs_of(&node);
    assert_eq!(counts, taken(&blobs, "one").await);
    drop(blobs);
    node.stop().await;
}

#[tokio::test]
async fn counts_after_any_writes_are_those_of_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let seed = std::env::var("STEADFAST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("STEADFAST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..3 {
        let node = open(folder.path()).await;
        let blobs = blobs_of(&node);
        for _ in 0..150 {
            act(&blobs, &mut rng).await;
        }
        drop(blobs);
        node.stop().await;
        check_counts(folder.path()).await;
    }
}

#[test]
fn counts_after_a_kill_are_those_of_a_scan() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    if let Ok(folder) = std::env::var(FOLDER) {
        runtime.block_on(async {
            let node = open(Path::new(&folder)).await;
            println!("ready");
            futures_util::future::join_all((0..4).map(|_| act_on(&node))).await;
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rounds = std::env::var("STEADFAST_ROUNDS").ok();
    for round in 0..rounds.map_or(3, |text| text.parse().unwrap()) {
        let test = "counts_after_a_kill_are_those_of_a_scan";
        let mut command = own_test(module_path!(), test);
        command.env(FOLDER, folder.path());
        let patience = Duration::from_secs(60);
        let mut child = Process::spawn(command).unwrap();
        child.wait_for(|line| line == "ready", patience).unwrap();
        std::thread::sleep(Duration::from_millis(fastrand::u64(50..500)));
        child.kill().unwrap();
        runtime.block_on(check_counts(folder.path()));
        println!("round {round}");
    }
}

#[tokio::test]
async fn data_of_an_earlier_version_is_counted_before_the_first_growth() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let blobs = blobs_of(&node);
    let containers: Vec<_> = (0..12).map(|number| format!("one/box{number}")).collect();
    for container in &containers {
        blobs.create_container(container, Vec::new()).await.unwrap();
        blobs.put(container, put("a", 1000), NONE).await.unwrap();
    }
    let all = 12 * counted(1, 1000);
    drop(blobs);
    node.stop().await;
    erase_counts(folder.path(), &["one"]).await;
    // Room for one more blob of that length, and not for two.
    let limit = all + counted(1, 1000) + 1;
    let node = open_limited(folder.path(), limit).await;
    let blobs = blobs_of(&node);
    // Before anything is counted, deletions and smaller bodies change what will be.
    blobs.delete(&containers[0], "a", NONE).await.unwrap();
    blobs
        .put(&containers[1], put("a", 900), NONE)
        .await
        .unwrap();
    blobs
        .put(&containers[0], put("a", 1000), NONE)
        .await
        .unwrap();
    blobs
        .put(&containers[1], put("a", 1000), NONE)
        .await
        .unwrap();
    blobs
        .put(&containers[2], put("b", 1000), NONE)
        .await
        .unwrap();
    let refused = blobs.put(&containers[3], put("b", 1000), NONE).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.code().0),
        (ErrorKind::AccountFull, "STF-5036")
    );
    assert_eq!(taken(&blobs, "one").await, (limit - 1, 13));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_of_many_containers_fill_an_account_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let limit = counted(50, 50 * 1000);
    let node = open_limited(folder.path(), limit).await;
    let blobs = blobs_of(&node);
    let containers: Vec<_> = (0..16).map(|number| format!("one/box{number}")).collect();
    let space = node.runtime.space();
    let partitions = containers.iter().map(|container| {
        let to = Address::new(BLOB, container.to_owned(), "");
        space.partition(&to).0
    });
    assert!(partitions.collect::<BTreeSet<_>>().len() > 3);
    for container in &containers {
        blobs.create_container(container, Vec::new()).await.unwrap();
    }
    let writing = containers.iter().flat_map(|container| {
        let blobs = &blobs;
        (0..6).map(move |number| async move {
            let put = put(&format!("blob{number}"), 1000);
            match blobs.put(container, put, NONE).await {
                Ok(_) => 1,
                Err(error) if error.kind() == ErrorKind::AccountFull => 0,
                Err(error) => panic!("{error}"),
            }
        })
    });
    let written: u64 = futures_util::future::join_all(writing).await.iter().sum();
    assert_eq!(written, 50);
    assert_eq!(taken(&blobs, "one").await, (limit, 50));
    // The room that a deletion frees in one partition is for all others.
    blobs.delete_container(&containers[0]).await.unwrap();
    let (free, mut again) = (limit - taken(&blobs, "one").await.0, 0);
    for number in 0..50 {
        let name = format!("more{number}");
        let container = &containers[1 + number % 15];
        again += u64::from(blobs.put(container, put(&name, 1000), NONE).await.is_ok());
    }
    assert_eq!(again * counted(1, 1000), free);
    // Another account has a limit of its own.
    blobs.create_container("two/box", Vec::new()).await.unwrap();
    blobs.put("two/box", put("a", 1000), NONE).await.unwrap();
}

#[tokio::test]
async fn a_full_account_shrinks_whatever_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let node = open_limited(folder.path(), 1_000_000).await;
    let blobs = blobs_of(&node);
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    blobs
        .create_container("one/other", Vec::new())
        .await
        .unwrap();
    for name in ["a", "b"] {
        blobs.put(BOX, put(name, 100_000), NONE).await.unwrap();
    }
    stage(&blobs, "c", "YQ==", 10).await;
    drop(blobs);
    node.stop().await;
    // The allowance of the former limit is void.
    let node = open_limited(folder.path(), 150_000).await;
    let blobs = blobs_of(&node);
    for (container, name) in [(BOX, "d"), ("one/other", "a")] {
        let refused = blobs.put(container, put(name, 1), NONE).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AccountFull);
        assert!(blobs.get(container, name).await.is_err());
    }
    let longer = blobs.put(BOX, put("a", 100_001), NONE).await;
    assert_eq!(longer.unwrap_err().kind(), ErrorKind::AccountFull);
    let choices = vec![BlockChoice::Latest("YQ==".to_owned())];
    let listed = blobs.put_blocks(BOX, put("c", 0), choices, NONE).await;
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::AccountFull);
    let (found, body) = blobs.read(BOX, "a", None).await.unwrap();
    assert_eq!((found.length, body.len()), (100_000, 100_000));
    blobs.put(BOX, put("a", 100_000), NONE).await.unwrap();
    blobs.put(BOX, put("a", 99_999), NONE).await.unwrap();
    let staged = blobs.stage(BOX, vec![1; 99_000].into()).await.unwrap();
    blobs
        .put_staged(BOX, put("a", 0), staged, NONE)
        .await
        .unwrap();
    blobs.delete(BOX, "b", NONE).await.unwrap();
    let taken_now = counted(2, 99_010);
    assert_eq!(taken(&blobs, "one").await, (taken_now, 1));
    blobs.put("one/other", put("a", 1), NONE).await.unwrap();
    commit(&blobs, "c", &["YQ=="]).await;
    assert_eq!(taken(&blobs, "one").await, (counted(4, 99_011), 3));
    let shown = blobs.accounts().await.unwrap();
    assert_eq!((shown.len(), shown[0].limit), (1, Some(150_000)));
}
