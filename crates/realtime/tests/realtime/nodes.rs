//! A hub at two nodes, with lost answers between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use steadfast_core::id::Partition;
use steadfast_partition::{Error, ErrorKind, Result, ServiceKind};
use steadfast_realtime::gateway::Recipients;
use steadfast_realtime::{
    AppServerSession, ClientConnection, ClientIdentity, ClientOptions, ClientOutput, ClientReader,
    HubCensus, HubOptions, HubPayload, KeepAlive, LentLinkOutput, PeerNode, PeerTransport,
    ProtocolSet, Realtime,
};
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::service::{
    ClientCompletion, ClientInvocation, CloseConnections, ConnectionData, ExistenceCheck, Message,
    ServerHandshake, read, write,
};
use tokio::sync::watch;

use crate::desk::{Desk, PATIENCE, Talker};

/// All nodes of a test.
struct Mesh {
    nodes: Mutex<BTreeMap<String, Realtime>>,
    changes: watch::Sender<u64>,
    told: AtomicU64,
}

/// The mesh as one node sees it.
struct View {
    mesh: Arc<Mesh>,
    name: String,
}

fn other(name: &str) -> PeerNode {
    PeerNode {
        name: name.to_owned(),
        life: 1,
    }
}

impl PeerTransport for View {
    fn me(&self) -> PeerNode {
        other(&self.name)
    }

    fn all(&self) -> Vec<PeerNode> {
        let nodes = self.mesh.nodes.lock();
        let others = nodes.keys().filter(|name| **name != self.name);
        others.map(|name| other(name)).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.mesh.changes.subscribe()
    }

    /// Every third request is lost, and every third answer.
    fn tell(&self, to: &PeerNode, _: ServiceKind, word: Bytes) -> BoxFuture<'_, Result<Bytes>> {
        let node = self.mesh.nodes.lock().get(&to.name).cloned();
        let number = self.mesh.told.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let lost = || {
                let partition = Partition::new(0, 0);
                Error::new(ErrorKind::Unreachable { partition })
            };
            if number.is_multiple_of(3) {
                return Err(lost());
            }
            let answer = node.ok_or_else(lost)?.receive(word).unwrap();
            match number % 3 {
                1 => Err(lost()),
                _ => Ok(answer),
            }
        })
    }
}

fn two() -> (Arc<Mesh>, Desk, Desk) {
    let mesh = Arc::new(Mesh {
        nodes: Mutex::default(),
        changes: watch::channel(0).0,
        told: AtomicU64::new(0),
    });
    let desks = ["a", "b"].map(|name| Desk::named(name, HubOptions::default()));
    for (name, desk) in ["a", "b"].iter().zip(&desks) {
        let mut nodes = mesh.nodes.lock();
        nodes.insert((*name).to_owned(), desk.realtime.clone());
    }
    for (name, desk) in ["a", "b"].iter().zip(&desks) {
        let view = View {
            mesh: Arc::clone(&mesh),
            name: (*name).to_owned(),
        };
        desk.realtime.join_cluster(Arc::new(view));
    }
    let [a, b] = desks;
    (mesh, a, b)
}

async fn told(talker: &mut Talker) -> u64 {
    let next = talker.next().await;
    assert_eq!(next["target"], "told", "{next}");
    next["arguments"][0].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn sends_arrive_once_and_in_order_whatever_is_lost() {
    let (_mesh, a, b) = two();
    let (mut near, mut far) = (a.json("x").await, b.json("y").await);
    let all = a.lobby().cluster();
    for number in 0..200_u64 {
        let to = Recipients::All { except: Vec::new() };
        let payload = HubPayload::call(ProtocolSet::BOTH, None, "told", &(number,)).unwrap();
        all.send(&to, &payload);
        // Some go together, others alone.
        if number.is_multiple_of(7) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for number in 0..200 {
        assert_eq!(told(&mut near).await, number);
        assert_eq!(told(&mut far).await, number);
    }
}

#[tokio::test(start_paused = true)]
async fn hubs_of_all_nodes_are_listed_with_their_clients() {
    let (_mesh, a, b) = two();
    let (_near, _far) = (a.json("x").await, b.json("y").await);
    let _third = b.json("z").await;
    // Only the other node has these; one of them has nothing but a name.
    let _server = Far::start(&b.realtime, "app").await;
    b.realtime.hub("named").unwrap();
    let all = a.realtime.page("", 9, |_| true).await;
    let far = HubCensus {
        name: "far".to_owned(),
        clients: 0,
        servers: vec!["app".to_owned()],
    };
    let room = HubCensus {
        name: "room".to_owned(),
        clients: 3,
        servers: vec!["a".to_owned(), "b".to_owned()],
    };
    assert_eq!(all.hubs, [far.clone(), room.clone()]);
    assert_eq!((all.next, all.missing), (None, Vec::new()));
    let first = a.realtime.page("", 1, |_| true).await;
    assert_eq!(
        (first.hubs, first.next.as_deref()),
        (vec![far], Some("far"))
    );
    let second = a.realtime.page("far", 1, |_| true).await;
    assert_eq!((second.hubs, second.next), (vec![room.clone()], None));
    let seen = a.realtime.page("", 1, |name| name == "room").await;
    assert_eq!((seen.hubs, seen.next), (vec![room], None));
}

#[tokio::test(start_paused = true)]
async fn a_hub_reaches_and_asks_clients_of_another_node() {
    let (_mesh, a, b) = two();
    let (mut near, mut far) = (a.json("x").await, b.json("y").await);
    // A group with members at both nodes, joined from the wrong one.
    near.call("enter", json!(["g"])).await;
    let all = a.lobby().cluster();
    all.join(&far.id(), "g").await.unwrap();
    near.invoke("1", "tell_group", json!(["g", "hello"])).await;
    assert_eq!(far.next().await["arguments"], json!(["hello"]));
    assert_eq!(near.next().await["invocationId"], "1");
    for (of, is_there) in [
        (ExistenceCheck::User("y".to_owned()), true),
        (ExistenceCheck::User("z".to_owned()), false),
        (ExistenceCheck::Connection(far.id()), true),
        (ExistenceCheck::Group("g".to_owned()), true),
        (ExistenceCheck::Group("h".to_owned()), false),
    ] {
        assert_eq!(all.check(of.clone()).await, is_there, "{of:?}");
    }
    let (members, more) = all.members("g", None, 1).await;
    assert_eq!((members.len(), more.is_some()), (1, true));
    let (rest, more) = all.members("g", more.as_deref(), 1).await;
    assert_eq!((rest.len(), more), (1, None));
    assert_ne!(members, rest);
    // Its answer comes back, and so does the news that it has gone.
    near.invoke("2", "ask", json!([far.id()])).await;
    let asked = far.next().await;
    let id = &asked["invocationId"];
    far.say(json!({"type": 3, "invocationId": id, "result": "Bob"}))
        .await;
    assert_eq!(near.next().await["result"], "it is Bob");
    near.invoke("3", "ask", json!([far.id()])).await;
    far.next().await;
    let closing = all.close(CloseConnections {
        user: Some("y".to_owned()),
        ..CloseConnections::default()
    });
    assert_eq!(closing.await, 1);
    assert_eq!(far.next().await["type"], 7);
    far.client.socket_lost(0, None);
    assert!(near.next().await["error"].is_string());
    near.invoke("4", "ask", json!(["absent"])).await;
    assert!(near.next().await["error"].is_string());
}

#[tokio::test(start_paused = true)]
async fn users_are_in_their_groups_at_nodes_that_come_later() {
    let (mesh, a, b) = two();
    let gone = mesh.nodes.lock().remove("b").unwrap();
    mesh.changes.send_modify(|count| *count += 1);
    let all = a.lobby().cluster();
    // Nothing tells when the other one has noticed; time is not real here.
    tokio::time::sleep(Duration::from_secs(2)).await;
    all.join_user("y", "g", None).unwrap();
    mesh.nodes.lock().insert("b".to_owned(), gone);
    mesh.changes.send_modify(|count| *count += 1);
    let far = b.json("y").await;
    let joined = async {
        while b.lobby().groups_of(&far.id()) != ["g"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, joined).await.unwrap();
    all.leave_user("y", None);
    let left = async {
        while !b.lobby().groups_of(&far.id()).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, left).await.unwrap();
}

/// An app server's end of a link that has its bytes carried by hand.
struct Far {
    link: AppServerSession,
    splitter: Splitter,
}

impl Far {
    async fn start(realtime: &Realtime, name: &str) -> Self {
        let link = realtime.server("far", name, false).unwrap();
        let mut far = Self {
            link,
            splitter: Splitter::default(),
        };
        far.say(&greeting(""));
        let welcome = far.next().await;
        assert!(matches!(welcome, Message::Welcome { .. }), "{welcome:?}");
        far
    }

    fn say(&mut self, message: &Message) {
        assert!(self.link.take(write(message)).is_ok());
    }

    async fn next(&mut self) -> Message {
        loop {
            if let Some(message) = next(&mut self.splitter) {
                return message;
            }
            let bytes = tokio::time::timeout(PATIENCE, self.link.link().outgoing());
            self.splitter.push(bytes.await.unwrap().unwrap());
        }
    }
}

fn greeting(target: &str) -> Message {
    Message::Handshake(ServerHandshake {
        version: 1,
        kind: i64::from(!target.is_empty()),
        target: target.to_owned(),
        elements: 7,
        ..ServerHandshake::default()
    })
}

/// The next message that is no sign of life.
fn next(splitter: &mut Splitter) -> Option<Message> {
    let packed = Protocol::MessagePack;
    while let Some(whole) = splitter.next(packed, usize::MAX).unwrap() {
        let message = read(&frame::body(packed, &whole).unwrap()).unwrap();
        if !matches!(&message, Message::Ping(words) if words.is_empty()) {
            return Some(message);
        }
    }
    None
}

/// A client of the hub `far`; it is greeted when a server has answered it.
fn client(realtime: &Realtime) -> (Arc<ClientConnection>, ClientReader) {
    let made = realtime.connect("far", ClientIdentity::default(), &ClientOptions::default());
    let (client, lobby) = made.unwrap();
    let inlet = ClientReader::new(Arc::clone(&client), lobby, 1 << 20);
    (client, inlet)
}

const HELLO: &[u8] = b"{\"protocol\":\"json\",\"version\":1}\x1e";

fn data(connection: &str, text: &'static str) -> Message {
    Message::Data(ConnectionData {
        connection: connection.to_owned(),
        payload: Bytes::from_static(text.as_bytes()),
        ..ConnectionData::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_a_client_of_another_server_at_another_node() {
    let (_mesh, a, b) = two();
    let mut asker = Far::start(&a.realtime, "first").await;
    let mut owner = Far::start(&b.realtime, "second").await;
    let (client, mut inlet) = client(&b.realtime);
    inlet.take(Bytes::from_static(HELLO)).await.unwrap();
    for _ in ["open", "handshake"] {
        owner.next().await;
    }
    let id = client.id().to_string();
    owner.say(&data(&id, "{}\x1e"));
    let question = ClientInvocation {
        id: "q".to_owned(),
        connection: id.clone(),
        caller: "first".to_owned(),
        payloads: vec![("json".to_owned(), Bytes::from_static(b"{\"type\":1}\x1e"))],
    };
    asker.say(&Message::Ask(question.clone()));
    let Message::Ask(asked) = owner.next().await else {
        panic!("the question");
    };
    assert_eq!((asked.id.as_str(), &asked.connection), ("q", &id));
    let own = ClientCompletion {
        id: "q".to_owned(),
        connection: id.clone(),
        caller: "second".to_owned(),
        outcome: Ok(("json".to_owned(), Bytes::from_static(b"answer"))),
    };
    let mapping = Message::Mapping {
        id: "q".to_owned(),
        connection: id.clone(),
        instance: "b".to_owned(),
    };
    assert_eq!(asker.next().await, mapping);
    owner.say(&Message::Answer(own.clone()));
    assert_eq!(asker.next().await, Message::Answer(own));
    // One that goes without an answer, and one that was never there.
    asker.say(&Message::Ask(question.clone()));
    assert_eq!(asker.next().await, mapping);
    client.socket_lost(0, None);
    let Message::Answer(gone) = asker.next().await else {
        panic!("an answer");
    };
    assert!(gone.outcome.is_err(), "{gone:?}");
    asker.say(&Message::Ask(question));
    let Message::Answer(absent) = asker.next().await else {
        panic!("an answer");
    };
    assert!(absent.outcome.is_err(), "{absent:?}");
}

#[tokio::test(start_paused = true)]
async fn realtime_38_a_server_with_links_to_two_nodes_asks_its_own_client() {
    let (_mesh, a, b) = two();
    let mut asker = Far::start(&a.realtime, "same").await;
    let mut owner = Far::start(&b.realtime, "same").await;
    let (client, mut inlet) = client(&b.realtime);
    inlet.take(Bytes::from_static(HELLO)).await.unwrap();
    for _ in ["open", "handshake"] {
        owner.next().await;
    }
    let id = client.id().to_string();
    owner.say(&data(&id, "{}\x1e"));
    asker.say(&Message::Ask(ClientInvocation {
        id: "q".to_owned(),
        connection: id.clone(),
        caller: "same".to_owned(),
        payloads: vec![("json".to_owned(), Bytes::from_static(b"{\"type\":1}\x1e"))],
    }));
    // The server reads the answer as what its client says, and tells that it has it.
    let answer = b"{\"type\":3,\"invocationId\":\"q\",\"result\":1}\x1e";
    assert!(matches!(asker.next().await, Message::Mapping { .. }));
    inlet.take(Bytes::from_static(answer)).await.unwrap();
    match owner.next().await {
        Message::Data(data) => assert_eq!(data.payload, &answer[..]),
        other => panic!("{other:?}"),
    }
    owner.say(&Message::Answer(ClientCompletion {
        id: "q".to_owned(),
        connection: id,
        caller: "same".to_owned(),
        outcome: Ok(("json".to_owned(), Bytes::from_static(answer))),
    }));
    asker.say(&Message::Ping(vec!["servers".to_owned(), String::new()]));
    let next = asker.next().await;
    assert!(matches!(next, Message::Ping(_)), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn realtime_31_a_server_is_told_of_the_servers_and_clients_of_all_nodes() {
    let (_mesh, a, b) = two();
    let mut first = Far::start(&a.realtime, "first").await;
    let mut second = Far::start(&b.realtime, "second").await;
    let (_client, mut inlet) = client(&b.realtime);
    inlet.take(Bytes::from_static(HELLO)).await.unwrap();
    for _ in ["open", "handshake"] {
        second.next().await;
    }
    let ping = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        Message::Ping(words.collect())
    };
    for server in [&mut first, &mut second] {
        server.say(&ping(&["servers", ""]));
        let Message::Ping(words) = server.next().await else {
            panic!("no answer");
        };
        let (_, names) = words[1].split_once(':').unwrap();
        assert_eq!(names, "first;second");
        server.say(&ping(&["status", "1"]));
        let expected = ["status", "1", "clientcount", "1", "servercount", "2"];
        assert_eq!(server.next().await, ping(&expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_is_lent_to_a_node_whose_clients_wait() {
    let (mesh, a, b) = two();
    let mut first = Far::start(&a.realtime, "first").await;
    let (waiting, mut inlet) = client(&b.realtime);
    let greeted = tokio::spawn(async move { inlet.take(Bytes::from_static(HELLO)).await });
    let wanted = Message::Ping(vec!["target".to_owned(), "b".to_owned()]);
    assert_eq!(first.next().await, wanted);
    assert!(a.realtime.lend("c", "far", "first", false).is_none());
    let (lent, mut words) = a.realtime.lend("b", "far", "first", false).unwrap();
    let mut splitter = Splitter::default();
    let mut hear = async |words: &mut LentLinkOutput| loop {
        if let Some(message) = next(&mut splitter) {
            return message;
        }
        let bytes = tokio::time::timeout(PATIENCE, words.outgoing()).await;
        splitter.push(bytes.unwrap().unwrap());
    };
    assert!(lent.take(write(&greeting("b"))).await.is_ok());
    assert!(matches!(hear(&mut words).await, Message::Welcome { .. }));
    let Message::Open(open) = hear(&mut words).await else {
        panic!("a client");
    };
    assert_eq!(&*open.connection, &**waiting.id());
    greeted.await.unwrap().unwrap();
    assert!(matches!(hear(&mut words).await, Message::Data(_)));
    assert!(
        lent.take(write(&data(&open.connection, "{}\x1e")))
            .await
            .is_ok()
    );
    let answer = waiting.outgoing(0, KeepAlive::Pings).await;
    assert_eq!(answer, ClientOutput::Data(Bytes::from_static(b"{}\x1e")));
    // With the node of its link a socket ends, and with its socket a link.
    let gone = mesh.nodes.lock().remove("b").unwrap();
    mesh.changes.send_modify(|count| *count += 1);
    let ended = async { while words.outgoing().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    drop(gone);
    assert!(lent.take(Bytes::new()).await.is_err());
}
