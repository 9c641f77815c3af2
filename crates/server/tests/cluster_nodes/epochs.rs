//! Readers of a partition at several nodes: one at a time.

use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::blob::path::parameters;
use steadfast_wire::blob::shared_key::{self, Request};
use steadfast_wire::sas;
use tokio::net::TcpStream;

use crate::nodes::{database, now, settled, three};
use crate::running::{KNOWN, PATIENCE, Server, said};

const PARTITIONS: u32 = 6;
const STOLEN: &str = "amqp:link:stolen";

/// The account of blobs that everybody knows.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/\
                           K1SZFPTOtr/KBHBeksoGMGw==";

/// A reader at a node.
struct Reader {
    client: AmqpClient<TcpStream>,
}

impl Reader {
    fn attach(server: &Server, partition: u32, epoch: i64) -> Self {
        let address = ("127.0.0.1", server.port_of("amqp"));
        server.block(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let anonymous = sasl::SaslInit {
                mechanism: "ANONYMOUS",
                response: b"",
            };
            let mut client = AmqpClient::connect(stream, &anonymous).await.unwrap();
            let audience = "sb://localhost/houses";
            let key = "RootManageSharedAccessKey";
            let token = sas::token(audience, 4_000_000_000, key, KNOWN);
            assert_eq!(client.put_token(0, audience, &token).await.unwrap(), 202);
            client.begin(1).await.unwrap();
            let place = format!("houses/ConsumerGroups/$Default/Partitions/{partition}");
            let reading = ReaderLinkOptions {
                epoch: Some(epoch),
                ..ReaderLinkOptions::default()
            };
            client.attach_reader(1, 0, &format!("epoch-{epoch}"), &place, &reading);
            client.flush().await.unwrap();
            let mut reader = Self { client };
            assert_eq!(reader.next().await, "attach");
            reader
        })
    }

    /// `attach`, or the condition of a detach.
    async fn next(&mut self) -> String {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.client.next());
            let frame = frame.await.expect("something comes").unwrap();
            let (performative, _) = performative::read(&frame.body).unwrap();
            match performative {
                Performative::Attach(_) => return "attach".to_owned(),
                Performative::Detach(detach) => {
                    let problem = detach.error;
                    return problem.map_or(String::new(), |own| own.condition.to_owned());
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, server: &Server) -> String {
        server.block(self.next())
    }

    /// Whether nothing happens to it for a moment.
    fn is_left_alone(&mut self, server: &Server) -> bool {
        let moment = Duration::from_millis(200);
        server.block(async { tokio::time::timeout(moment, self.next()).await.is_err() })
    }
}

/// Writes an ownership as the SDKs' checkpoint stores do.
fn claim(server: &Server, partition: u32, owner: &str) {
    let ask = |path: &str, headers: &[(&str, &str)]| {
        #[expect(clippy::disallowed_methods, reason = "processes run in real time")]
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let mut own = vec![("x-ms-date".to_owned(), date)];
        let headers = headers.iter();
        own.extend(headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let signed = Request {
            verb: "PUT",
            path: bare,
            parameters: &parameters(query).unwrap(),
            headers: &own,
        };
        let header = shared_key::header(ACCOUNT, ACCOUNT_KEY, &signed);
        own.push(("authorization".to_owned(), header.unwrap()));
        let url = format!("http://127.0.0.1:{}{path}", server.port_of("blob"));
        let mut request = server.client.put(url).header("content-length", 0);
        for (name, value) in own {
            request = request.header(name, value);
        }
        server.block(async { request.send().await.unwrap().status() })
    };
    let made = ask("/devstoreaccount1/box?restype=container", &[]);
    assert!([StatusCode::CREATED, StatusCode::CONFLICT].contains(&made));
    let path = format!("/devstoreaccount1/box/localhost/houses/$default/ownership/{partition}");
    let headers = [
        ("x-ms-blob-type", "BlockBlob"),
        ("x-ms-meta-ownerid", owner),
    ];
    assert_eq!(ask(&path, &headers), StatusCode::CREATED);
}

#[test]
fn a_partition_has_one_owner_of_a_group_at_all_nodes() {
    let database = database();
    let mut nodes = three(&database);
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let create = ["eventhub", "create", "houses", "--partitions", "6"];
    assert_eq!(said(&a.run(&create)).0, 0);
    let mut slowest = Duration::ZERO;
    for partition in 0..PARTITIONS {
        // Whichever node owns it, the higher epoch wins, and the lower one is rejected.
        let mut first = Reader::attach(a, partition, 1);
        let mut second = Reader::attach(b, partition, 2);
        let began = now();
        assert_eq!(first.end(a), STOLEN, "partition {partition}");
        slowest = slowest.max(began.elapsed());
        let mut third = Reader::attach(c, partition, 1);
        assert_eq!(third.end(c), STOLEN, "partition {partition}");
        assert!(second.is_left_alone(b), "partition {partition}");
        // A claim at a third node cuts it.
        claim(c, partition, "another");
        assert_eq!(second.end(b), STOLEN, "partition {partition}");
    }
    println!("a reader was cut {slowest:?} after a higher epoch had come to another node");
    // Partitions move; readers stay, and so does what they are worth.
    let mut high: Vec<_> = (0..PARTITIONS)
        .map(|partition| Reader::attach(a, partition, 5))
        .collect();
    let mut leaving = nodes.pop().unwrap();
    leaving.signal(Signal::TERM);
    assert_eq!(leaving.ended().0, 0);
    let (a, b) = (&nodes[0], &nodes[1]);
    settled(a, 2);
    for (partition, high) in high.iter_mut().enumerate() {
        let partition = partition as u32;
        let mut low = Reader::attach(b, partition, 4);
        assert_eq!(low.end(b), STOLEN, "partition {partition}");
        let higher = Reader::attach(b, partition, 6);
        assert_eq!(high.end(a), STOLEN, "partition {partition}");
        drop(higher);
    }
}
