//! A node leaves with work under way.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast::partition::{
    Address, Effect, Handle, Performer, Service, ServiceKind, Turn, TurnError, TurnOutcome,
    service_table,
};
use steadfast::{Builder, Bytes, Node};
use steadfast_harness::{Process, own_test};
use tokio::sync::mpsc;

const KIND: ServiceKind = ServiceKind(3);
const FOLDER: &str = "STEADFAST_DRAIN_FOLDER";
const WRITERS: u64 = 32;
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the last text of each instance. It never answers `hold`, and on `work` it
/// wants something done outside.
struct Keeper;

impl Service for Keeper {
    type Command = Bytes;
    type Response = Bytes;

    fn kind(&self) -> ServiceKind {
        KIND
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        text: &Bytes,
    ) -> Result<TurnOutcome<Bytes>, TurnError> {
        let rows = service_table(KIND, 0);
        match &text[..] {
            b"hold" => return Ok(TurnOutcome::Later),
            b"get" => {}
            b"work" => turn.open_work("id", "body"),
            b"done" => turn.close_work(b"id"),
            _ => turn.put(rows, &to.key, text.clone()),
        }
        Ok(TurnOutcome::Now(
            turn.get(rows, &to.key)?.unwrap_or_default(),
        ))
    }
}

fn keeper(key: u64) -> Address {
    Address::new(KIND, "keeper", key.to_string())
}

async fn start(folder: &Path) -> Node {
    start_with(folder, || Node::builder().service(Keeper)).await
}

/// Starts a node as soon as its former life has let go of the folder.
async fn start_with(folder: &Path, builder: impl Fn() -> Builder) -> Node {
    let starting = async {
        loop {
            match builder().data(folder).partitions(8).start().await {
                Ok(node) => return node,
                Err(error) if error.code().0 == "STF-2001" => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, starting).await.unwrap()
}

/// Writes one number after the other; tells of each that was acknowledged, until
/// it is turned away.
async fn write(
    keeper: Handle<Keeper>,
    key: u64,
    from: u64,
    told: mpsc::UnboundedSender<(u64, u64)>,
) {
    for number in from.. {
        let text = Bytes::from(number.to_string());
        match keeper.call(self::keeper(key), text).await {
            Ok(_) => told.send((key, number)).unwrap(),
            Err(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_completed_and_the_rest_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let (told, mut acknowledged) = mpsc::unbounded_channel();
    let writers: Vec<_> = (0..WRITERS)
        .map(|key| tokio::spawn(write(node.handle(), key, 1, told.clone())))
        .collect();
    drop(told);
    let mut last = BTreeMap::new();
    while last.len() < WRITERS as usize {
        let (key, number) = acknowledged.recv().await.unwrap();
        last.insert(key, number);
    }
    let sheet = node.drain(PATIENCE).await;
    assert_eq!(
        (sheet.moved, sheet.left, sheet.cut_off, sheet.lost),
        (8, 0, 0, 0)
    );
    // No writer waits indefinitely: each one got an answer.
    for writer in writers {
        writer.await.unwrap();
    }
    while let Some((key, number)) = acknowledged.recv().await {
        last.insert(key, number);
    }
    node.stop(PATIENCE).await;
    drop(node);
    let again = start(folder.path()).await;
    for (key, number) in last {
        let found = read(&again, key).await;
        assert!(
            found >= number,
            "{key}: {number} was acknowledged, {found} is there"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_ends_is_cut_off_at_the_limit_and_its_caller_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let handle = node.handle::<Keeper>();
    handle.call(keeper(1), Bytes::from("kept")).await.unwrap();
    let held = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.call(keeper(1), Bytes::from("hold")).await })
    };
    // Behind it in the same partition: so the one that is held has begun.
    handle.call(keeper(1), Bytes::from("get")).await.unwrap();
    let sheet = node.drain(Duration::from_millis(500)).await;
    assert!(
        held.await.unwrap().is_err(),
        "the caller was told something else"
    );
    assert_eq!(sheet.lost, 0);
    drop(node);
    let again = start(folder.path()).await;
    let kept = again
        .handle::<Keeper>()
        .call(keeper(1), Bytes::from("get"))
        .await;
    assert_eq!(kept.unwrap(), "kept");
}

/// Does nothing, and tells what it was asked for.
struct Told(mpsc::UnboundedSender<Effect>);

impl Performer for Told {
    fn perform(&self, effect: Effect) {
        self.0.send(effect).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_work_is_handed_over_to_the_next_life_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    for life in 0..3 {
        let (told, mut effects) = mpsc::unbounded_channel();
        let node = start_with(folder.path(), || {
            let told = told.clone();
            let builder = Node::builder().service(Keeper);
            builder.performer(KIND, move |_| Arc::new(Told(told)))
        })
        .await;
        let handle = node.handle::<Keeper>();
        if life == 0 {
            handle.call(keeper(1), Bytes::from("work")).await.unwrap();
        }
        if life < 2 {
            let effect = effects.recv().await.unwrap();
            assert_eq!((effect.from, effect.body), (keeper(1), Bytes::from("body")));
        }
        if life == 1 {
            handle.call(keeper(1), Bytes::from("done")).await.unwrap();
        }
        let sheet = node.drain(PATIENCE).await;
        assert_eq!(sheet.moved, 8);
        if life == 2 {
            assert!(effects.try_recv().is_err(), "it was done already");
        }
        node.stop(PATIENCE).await;
    }
}

/// Killed at any moment of a drain, nothing acknowledged is lost.
#[test]
fn kill_during_the_drain() {
    // The child is this very test, started again with a folder to work on.
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_and_drain(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut killed = 0;
    for round in 0..20 {
        let mut command = own_test(module_path!(), "kill_during_the_drain");
        command.env(FOLDER, folder.path());
        let mut child = Process::spawn(command).unwrap();
        let mut lines = 0;
        let mut note = |line: &str| {
            let numbers: Option<Vec<u64>> = line.split(' ').map(|part| part.parse().ok()).collect();
            if let Some(&[key, number]) = numbers.as_deref() {
                let known = last.entry(key).or_default();
                *known = number.max(*known);
                lines += 1;
            }
            lines
        };
        child.wait_for(|line| note(line) > 200, PATIENCE).unwrap();
        child.write_line("drain").unwrap();
        child
            .wait_for(|line| note(line) > 0 && line == "draining", PATIENCE)
            .unwrap();
        // At some time between the start and the end of the drain.
        std::thread::sleep(Duration::from_micros(round * 1500));
        child.kill().unwrap();
        let mut is_over = false;
        while let Ok(line) = child.next_line(PATIENCE) {
            note(&line);
            is_over |= line.starts_with("sheet");
        }
        killed += u32::from(!is_over);
        check(folder.path(), &last);
    }
    println!("{killed} of 20 were killed before the drain was over");
    assert!(killed > 0, "no drain was interrupted");
}

/// What was acknowledged is there.
fn check(folder: &Path, last: &BTreeMap<u64, u64>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = start(folder).await;
        for (&key, &number) in last {
            let found = read(&node, key).await;
            assert!(
                found >= number,
                "{key}: {number} was acknowledged, {found} is there"
            );
        }
    });
    runtime.shutdown_timeout(PATIENCE);
}

async fn read(node: &Node, key: u64) -> u64 {
    let found = node
        .handle::<Keeper>()
        .call(keeper(key), Bytes::from("get"))
        .await;
    String::from_utf8(found.unwrap().to_vec())
        .unwrap()
        .parse()
        .unwrap_or(0)
}

/// The child: writes until it is told to drain, and says what was acknowledged.
fn write_and_drain(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = start(folder).await;
        let (told, mut acknowledged) = mpsc::unbounded_channel();
        for key in 0..WRITERS {
            let from = read(&node, key).await + 1;
            tokio::spawn(write(node.handle(), key, from, told.clone()));
        }
        drop(told);
        let saying = tokio::spawn(async move {
            while let Some((key, number)) = acknowledged.recv().await {
                println!("{key} {number}");
            }
        });
        let asked = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
        asked.await.unwrap();
        println!("draining");
        let sheet = node.drain(PATIENCE).await;
        saying.await.unwrap();
        println!("sheet {sheet:?}");
    });
}
