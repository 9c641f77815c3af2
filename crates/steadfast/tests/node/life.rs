//! A node in the process of its user.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use steadfast::collections::{Lifecycle, PartitionKey, Result as Done, Scheme, State};
use steadfast::config::{Config, Layers};
use steadfast::{Error, Node};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(folder: &Path, flags: &[&str]) -> Config {
    let layers = Layers::new().flag("http.port=0").unwrap();
    let layers = layers.flag("events.amqp_port=0").unwrap();
    let layers = layers.flag("durable.port=0").unwrap();
    let layers = layers.flag("events.blob_port=0").unwrap();
    let layers = layers.flag("realtime.port=0").unwrap();
    let layers = layers.flag(&format!("data={}", folder.display())).unwrap();
    let layers = flags
        .iter()
        .try_fold(layers, |layers, flag| layers.flag(flag));
    Config::new(&layers.unwrap()).unwrap()
}

fn port(node: &Node) -> u16 {
    let url = &node.addresses()[0].url;
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Starts a node as soon as the folder is free.
async fn start_again(config: &Config) -> Node {
    let starting = async {
        loop {
            match Node::builder().config(config.clone()).serve().start().await {
                Ok(node) => return node,
                Err(Error::Storage(error)) if error.code().0 == "STF-2001" => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, starting).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_node_closes_its_port_and_lets_go_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let node = start_again(&config).await;
    let clone = node.clone();
    let port = port(&node);
    drop(node);
    // A clone is the same node; a connected client does not keep it.
    let idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    drop(clone);
    let again = start_again(&config).await;
    assert_eq!(again.status().state, "ready");
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_not_drained_stops_before_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_again(&config(folder.path(), &[])).await;
    let stopped = tokio::time::timeout(PATIENCE, node.stop(2 * PATIENCE));
    stopped.await.unwrap();
}

#[tokio::test]
async fn a_node_without_serve_opens_no_port() {
    let node = Node::builder().memory().start().await.unwrap();
    assert!(node.addresses().is_empty());
}

#[tokio::test]
async fn partitions_are_fixed_when_a_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .data(folder.path())
        .partitions(4)
        .start()
        .await
        .unwrap();
    node.drain(PATIENCE).await;
    assert_eq!(node.status().state, "draining");
    node.stop(PATIENCE).await;
    drop(node);
    let error = loop {
        match Node::builder()
            .data(folder.path())
            .partitions(5)
            .start()
            .await
        {
            Err(Error::Storage(error)) if error.code().0 == "STF-2001" => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => break error,
            Ok(_) => panic!("a space with another number of partitions"),
        }
    };
    assert_eq!(error.code().0, "STF-4007", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_reads_what_follows_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &["engine=memory"]);
    let node = Node::builder().config(config).start().await.unwrap();
    node.on_reload("mine", |_| Ok(()));
    assert_eq!(node.reload().unwrap(), ["keys", "mine"]);
    node.on_reload("yours", |_| Err("no".to_owned()));
    assert!(node.reload().unwrap_err().contains("no"));
}

/// The status line that a path is answered with.
async fn status_of(port: u16, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_is_alive_and_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let node = Node::builder()
        .config(config)
        .serve()
        .start()
        .await
        .unwrap();
    let port = port(&node);
    assert!(status_of(port, "/readyz").await.contains("200"));
    // A hook that waits holds the node in the middle of its drain.
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let (say, began) = tokio::sync::oneshot::channel::<()>();
    node.on_drain(async move {
        say.send(()).unwrap();
        wait.await.unwrap();
    });
    let leaving = tokio::spawn({
        let node = node.clone();
        async move { node.drain(Duration::from_secs(60)).await }
    });
    began.await.unwrap();
    assert!(status_of(port, "/readyz").await.contains("503"));
    assert!(status_of(port, "/livez").await.contains("200"));
    assert_eq!(node.status().state, "draining");
    go_on.send(()).unwrap();
    let sheet = leaving.await.unwrap();
    assert_eq!((sheet.left, sheet.lost), (0, 0));
}

/// Notes the lives that it is told of.
#[derive(Default)]
struct Diary(Mutex<Vec<u64>>);

impl Lifecycle for Diary {
    async fn on_data_loss(&self, _: &State, incarnation: u64) -> Done<bool> {
        self.0.lock().unwrap().push(incarnation);
        Ok(false)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_hears_of_a_loss_that_others_saw_first() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let diary = Diary::default();
    for life in 1..=2 {
        let node = start_again(&config).await;
        let cache = node.volatile_service("cache", Scheme::Singleton);
        let cache = cache.await.unwrap();
        assert_eq!(
            cache
                .partition(PartitionKey::Only)
                .await
                .unwrap()
                .incarnation(),
            life
        );
        for _ in 0..2 {
            let partition = cache
                .partition_with(PartitionKey::Only, &diary)
                .await
                .unwrap();
            assert_eq!(partition.incarnation(), life);
        }
        // No other node has a copy of this node's state, and the report says so.
        let sheet = node.drain(Duration::from_secs(10)).await;
        assert_eq!((sheet.left, sheet.lost), (0, 1));
    }
    assert_eq!(*diary.0.lock().unwrap(), [2]);
}

mod older {
    use steadfast::{Record, Unknown};

    #[derive(Record, Clone)]
    pub(crate) struct House {
        #[n(0)]
        pub(crate) name: String,
        pub(crate) unknown: Unknown,
    }
}

mod newer {
    use steadfast::{Record, Unknown};

    #[derive(Record, Clone)]
    pub(crate) struct House {
        #[n(0)]
        pub(crate) name: String,
        #[n(1)]
        pub(crate) warmth: Option<i64>,
        pub(crate) unknown: Unknown,
    }
}

/// One name in scope is the derive and the trait with its methods.
#[test]
fn a_record_is_derived_and_evolved_under_one_public_name() {
    use steadfast::Record;
    use steadfast::collections::schema::{decode_value, encode_value};

    fn version<T: Record>() -> u32 {
        T::VERSION
    }
    let new = newer::House {
        name: "seven".into(),
        warmth: Some(21),
        unknown: steadfast::Unknown::NONE,
    };
    let stored = encode_value(&new, version::<newer::House>()).unwrap();
    let old: older::House = decode_value(&stored).unwrap();
    let changed = older::House {
        name: "eight".into(),
        ..old.evolve()
    };
    let stored = encode_value(&changed, version::<older::House>()).unwrap();
    let again: newer::House = decode_value(&stored).unwrap();
    assert_eq!((again.name.as_str(), again.warmth), ("eight", Some(21)));
}
