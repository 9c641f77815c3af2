//! Sends to clients that are part of a commit.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast::collections::Dictionary;
use steadfast::durable::{EntityContext, FailureDetails, entity};
use steadfast::events::{
    Context as Handling, EventDataBatch, EventHubDefinition, Handler, HandlerResult, ReceivedEvent,
};
use steadfast::realtime::gateway::Recipients;
use steadfast::realtime::{
    ClientConnection, ClientIdentity, ClientOptions, ClientOutput, ClientReader, ClientTransport,
    Context, HubResult, KeepAlive, PushCommand,
};
use steadfast::{Bytes, Node, hub};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Desk;

#[hub]
impl Desk {
    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }
}

/// A client of the hub, without a socket.
struct Guest {
    client: Arc<ClientConnection>,
    inlet: ClientReader,
    /// Which socket it has, and what has come by it.
    socket: u64,
    said: Vec<Value>,
}

impl Guest {
    async fn start(node: &Node, is_stateful: bool) -> Self {
        let wishes = ClientOptions {
            is_stateful,
            ..ClientOptions::default()
        };
        let caller = ClientIdentity {
            user: Some("alice".to_owned()),
            ..ClientIdentity::default()
        };
        let ticket = node.realtime().negotiate("desk", caller, wishes, true);
        let ticket = ticket.unwrap();
        let open = ticket.open(ClientTransport::WebSockets, 100_000).unwrap();
        let client = Arc::clone(&open.client);
        let inlet = ClientReader::new(Arc::clone(&client), Arc::clone(&ticket.hub), 100_000);
        let mut guest = Self {
            client,
            inlet,
            socket: 0,
            said: Vec::new(),
        };
        guest.say(json!({"protocol": "json", "version": 2})).await;
        assert_eq!(guest.next().await, json!({}));
        guest
    }

    async fn say(&mut self, message: Value) {
        let record = Bytes::from(format!("{message}\u{1e}"));
        self.inlet.take(record).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        while self.said.is_empty() {
            let next = self.client.outgoing(self.socket, KeepAlive::Pings);
            let next = tokio::time::timeout(PATIENCE, next).await;
            let ClientOutput::Data(bytes) = next.expect("something comes") else {
                panic!("it has ended");
            };
            let text = std::str::from_utf8(&bytes).unwrap();
            let records = text.split('\u{1e}').filter(|own| !own.is_empty());
            self.said = records
                .map(|own| serde_json::from_str(own).unwrap())
                .collect();
        }
        self.said.remove(0)
    }

    /// The number in the next push.
    async fn number(&mut self) -> i64 {
        loop {
            let said = self.next().await;
            if said["target"] == "paid" {
                return said["arguments"][0].as_i64().unwrap();
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.said.is_empty() && self.client.waiting_bytes() == 0
    }
}

fn paid(number: i64) -> PushCommand {
    let to = Recipients::Users(vec!["alice".to_owned()]);
    PushCommand::new("desk", to, "paid", &(number,)).unwrap()
}

#[tokio::test]
async fn a_transaction_pushes_after_its_commit_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Node::builder()
        .data(folder.path().join("data"))
        .partitions(4);
    let node = builder.hub::<Desk>("/desk").start().await.unwrap();
    let mut guest = Guest::start(&node, false).await;
    let shop = node.singleton("till").await.unwrap();
    let till = shop.dictionary::<String, i64>("till").await.unwrap();

    let mut tx = shop.replica().begin();
    till.set(&mut tx, "a", 1).await.unwrap();
    tx.send(&paid(1)).unwrap();
    assert!(guest.is_silent(), "nothing leaves before the commit");
    tx.abort();
    let mut tx = shop.replica().begin();
    till.set(&mut tx, "a", 2).await.unwrap();
    tx.send(&paid(2)).unwrap();
    tx.send(&paid(3)).unwrap();
    tx.commit().await.unwrap();
    // What was aborted never comes; both of one transaction come in their order.
    assert_eq!((guest.number().await, guest.number().await), (2, 3));

    // Many at a time: clients see them in the order of their commits.
    let mut running = Vec::new();
    for number in 10..60 {
        let (shop, till) = (shop.clone(), till.clone());
        running.push(tokio::spawn(async move {
            let done = shop.transact(async |mut tx| {
                let next = till
                    .add_or_update(&mut tx, "last", || 1000, |n| n + 1)
                    .await?;
                tx.send(&paid(*next))?;
                tx.commit(number).await
            });
            done.await.unwrap()
        }));
    }
    for running in running {
        running.await.unwrap();
    }
    for expected in 1000..1050 {
        assert_eq!(guest.number().await, expected);
    }
    // Without changes of rows it is sent too.
    let mut tx = shop.replica().begin();
    tx.send(&paid(5)).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(guest.number().await, 5);
}

#[tokio::test]
async fn a_client_that_was_away_gets_what_it_missed() {
    let node = Node::builder().memory().partitions(2).hub::<Desk>("/desk");
    let node = node.start().await.unwrap();
    let mut guest = Guest::start(&node, true).await;
    let shop = node.singleton("till").await.unwrap();
    let push = async |number: i64| {
        let mut tx = shop.replica().begin();
        tx.send(&paid(number)).unwrap();
        tx.commit().await.unwrap();
    };
    push(1).await;
    assert_eq!(guest.number().await, 1);
    guest.client.socket_lost(0, Some("the socket was lost"));
    push(2).await;
    push(3).await;
    guest.socket = guest.client.resume().expect("it may come back");
    // What was not acknowledged comes again, and then what it missed.
    assert_eq!(guest.next().await, json!({"type": 9, "sequenceId": 1}));
    let numbers = [
        guest.number().await,
        guest.number().await,
        guest.number().await,
    ];
    assert_eq!(numbers, [1, 2, 3]);
}

#[derive(Default, Serialize, Deserialize)]
struct Account {
    value: i64,
}

#[entity]
impl Account {
    fn pay(&mut self, context: &mut EntityContext, by: i64) -> Result<i64, FailureDetails> {
        self.value += by;
        context.send(&paid(self.value))?;
        if self.value < 0 {
            Err(FailureDetails::new("Overdrawn", "there is not enough"))
        } else {
            Ok(self.value)
        }
    }
}

#[tokio::test]
async fn an_operation_of_an_entity_pushes_with_its_commit() {
    let node = Node::builder().memory().partitions(4).hub::<Desk>("/desk");
    let node = node.entity::<Account>().start().await.unwrap();
    let mut guest = Guest::start(&node, false).await;
    let hub = node.task_hubs().hub("default").unwrap();
    let account = Account::at("a").unwrap();
    assert_eq!(account.pay(&hub, 5).await, Ok(5));
    // One that fails has sent nothing.
    assert!(account.pay(&hub, -50).await.is_err());
    assert_eq!(account.pay(&hub, 2).await, Ok(7));
    assert_eq!((guest.number().await, guest.number().await), (5, 7));
}

/// Counts, and fails once in the middle.
struct Count;

impl Handler for Count {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Handling<'_>) -> HandlerResult {
        let state = context.state()?;
        let seen: Dictionary<String, i64> = state.get_or_add("seen").await?;
        let tx = context.transaction()?;
        for _ in events {
            let count = seen.add_or_update(tx, "all", || 1, |n| n + 1).await?;
            tx.send(&paid(*count))?;
        }
        static FAILED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        if !FAILED.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return Err("once".into());
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_of_a_processor_pushes_with_its_checkpoint() {
    let node = Node::builder().memory().partitions(4).hub::<Desk>("/desk");
    let node = node
        .event_hub(EventHubDefinition::new("payments", 1))
        .processor("payments", "$Default", Count)
        .start()
        .await
        .unwrap();
    let mut guest = Guest::start(&node, false).await;
    let sender = node.event_hubs().sender("payments", None).await.unwrap();
    for _ in 0..3 {
        let mut batch = EventDataBatch::new();
        batch.push(b"1 euro").unwrap();
        sender.send(batch).await.unwrap();
    }
    // The attempt that failed has pushed nothing, so every number comes once.
    let numbers = [
        guest.number().await,
        guest.number().await,
        guest.number().await,
    ];
    assert_eq!(numbers, [1, 2, 3]);
}
