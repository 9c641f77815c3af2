//! Commands that wait for code outside the loop.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::SystemClock;
use steadfast_core::id::Owner;
use steadfast_partition::{
    Address, Completer, Effect, ErrorKind, Options, Performer, Router, Runtime, Service,
    ServiceKind, Services, SingleNode, Space, SuspensionState, Turn, TurnError, TurnOutcome,
    service_table,
};
use steadfast_storage::Store;
use steadfast_storage::memory::MemoryEngine;
use tokio::sync::mpsc;

const KIND: ServiceKind = ServiceKind(9);
const ROWS: steadfast_core::id::TableId = service_table(KIND, 0);

/// Appends to a row the result of code outside the loop.
struct Scribe;

impl Service for Scribe {
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
        let mut row = turn.get(ROWS, &to.key)?.unwrap_or_default().to_vec();
        match turn.suspension::<Bytes>() {
            SuspensionState::NotStarted => {
                let desk = turn.helper::<Desk>().unwrap();
                desk.0.send((text.clone(), turn.completer())).unwrap();
                return Err(TurnError::Suspended);
            }
            SuspensionState::Completed(Some(answer)) => row.extend_from_slice(&answer),
            SuspensionState::Completed(None) => row.extend_from_slice(b"?"),
            SuspensionState::Unavailable => row.extend_from_slice(b"!"),
        }
        turn.put(ROWS, &to.key, row.clone());
        Ok(TurnOutcome::Now(row.into()))
    }
}

struct Desk(mpsc::UnboundedSender<(Bytes, Completer)>);

impl Performer for Desk {
    fn perform(&self, _: Effect) {}

    fn helper(&self, kind: ServiceKind) -> Option<&(dyn Any + Send + Sync)> {
        let me: &(dyn Any + Send + Sync) = self;
        (kind == KIND).then_some(me)
    }
}

struct Node {
    runtime: Runtime,
    errands: Mutex<mpsc::UnboundedReceiver<(Bytes, Completer)>>,
}

impl Node {
    async fn start() -> Self {
        let owner = Owner {
            node: 1,
            incarnation: 1,
        };
        let engine = Arc::new(MemoryEngine::new());
        let options = steadfast_storage::Options::new(owner);
        let store = Arc::new(Store::start(Arc::clone(&engine) as _, options));
        let (desk, errands) = mpsc::unbounded_channel();
        let options = Options {
            services: Services::new().with(Scribe),
            performer: Arc::new(Desk(desk)),
            router: Arc::new(Router::new(Arc::new(SingleNode))),
            clock: Arc::new(SystemClock::new()),
        };
        let space = Space {
            number: 0,
            name: "main".into(),
            partitions: 1,
            incarnation: 1,
        };
        let space = Space::open(&*engine, space).await.unwrap();
        let runtime = Runtime::new(store, space, options);
        runtime.serve_all().await.unwrap();
        Self {
            runtime,
            errands: Mutex::new(errands),
        }
    }

    fn call(&self, key: &'static str, text: &'static str) -> tokio::task::JoinHandle<Bytes> {
        let handle = self.runtime.handle::<Scribe>();
        tokio::spawn(async move {
            let text = Bytes::from_static(text.as_bytes());
            handle.call(address(key), text).await.unwrap()
        })
    }

    async fn errand(&self) -> (Bytes, Completer) {
        loop {
            let next = self.errands.lock().try_recv();
            match next {
                Ok(next) => return next,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}

fn address(key: &str) -> Address {
    Address {
        kind: KIND,
        name: Bytes::new(),
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

#[tokio::test]
async fn a_command_waits_for_its_errand_and_others_pass() {
    let node = Node::start().await;
    let first = node.call("a", "1");
    let (text, ticket) = node.errand().await;
    assert_eq!(text, "1");
    // One for the same instance waits behind it, one for another does not.
    let second = node.call("a", "2");
    let other = node.call("b", "3");
    let (text, passing) = node.errand().await;
    assert_eq!(text, "3");
    passing.complete(Bytes::from_static(b"three"));
    assert_eq!(other.await.unwrap(), "three");
    assert!(node.errands.lock().try_recv().is_err());
    ticket.complete(Bytes::from_static(b"one"));
    assert_eq!(first.await.unwrap(), "one");
    let (text, ticket) = node.errand().await;
    assert_eq!(text, "2");
    ticket.complete(Bytes::from_static(b"two"));
    assert_eq!(second.await.unwrap(), "onetwo");
}

#[tokio::test]
async fn an_errand_that_nobody_runs_comes_back_empty() {
    let node = Node::start().await;
    let call = node.call("a", "1");
    drop(node.errand().await);
    assert_eq!(call.await.unwrap(), "?");
    let call = node.call("a", "2");
    let (_, ticket) = node.errand().await;
    // Nor does an answer of another type count.
    ticket.complete(7u8);
    assert_eq!(call.await.unwrap(), "??");
}

#[tokio::test]
async fn commands_that_share_a_commit_wait_for_nobody() {
    let node = Node::start().await;
    let partition = node.runtime.serving()[0];
    let door = node.runtime.router().mailbox(partition).unwrap();
    let envelope = |key| steadfast_partition::Envelope::new(address(key), Bytes::from_static(b"x"));
    let all = vec![envelope("a"), envelope("b")];
    door.commit(Default::default(), all, Vec::new())
        .await
        .unwrap();
    let row = door
        .ledger()
        .get(ROWS, b"b", steadfast_storage::Visibility::Durable);
    assert_eq!(row.await.unwrap().unwrap(), "!");
}

/// A partition that is handed over does not wait without end for a suspension; its
/// caller gets an error, and a late answer changes nothing.
#[tokio::test]
async fn a_late_answer_changes_nothing() {
    let node = Node::start().await;
    let handle = node.runtime.handle::<Scribe>();
    let call = tokio::spawn(async move {
        let text = Bytes::from_static(b"1");
        handle.call(address("a"), text).await
    });
    let (_, ticket) = node.errand().await;
    let partition = node.runtime.serving()[0];
    let limit = Duration::from_millis(50);
    let given_up = node.runtime.hand_over(partition, limit).await.unwrap();
    assert_eq!(given_up.cut_off, 1);
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Draining { .. }),
        "{error}"
    );
    ticket.complete(Bytes::from_static(b"late"));
    node.runtime.serve(partition).await.unwrap();
    let call = node.call("a", "2");
    let (_, ticket) = node.errand().await;
    ticket.complete(Bytes::from_static(b"two"));
    assert_eq!(call.await.unwrap(), "two");
}
