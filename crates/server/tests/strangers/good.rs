//! Clients with a key, and how long they wait.
#![allow(clippy::disallowed_methods, reason = "they wait in real time")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steadfast_client::amqp::{AmqpClient, write_event};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;

use super::connect;
use crate::running::{KNOWN, PATIENCE};

/// The pause between two requests of one client, and how many it makes at least.
const PAUSE: Duration = Duration::from_millis(15);
const REQUESTS: usize = 500;

/// How long 99 of 100, and the slowest, waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
    pub(crate) count: usize,
}

/// Does something again and again until an attack is over.
fn measure(is_over: &AtomicBool, mut request: impl FnMut(usize)) -> Waits {
    let mut times = Vec::new();
    while times.len() < REQUESTS || !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        request(times.len());
        times.push(began.elapsed());
        std::thread::sleep(PAUSE);
    }
    times.sort();
    Waits {
        p99: times[times.len() * 99 / 100],
        longest: times[times.len() - 1],
        count: times.len(),
    }
}

/// Asks over HTTP with a key, on one connection, or on a new one each time.
pub(crate) fn http(port: u16, is_new: bool, is_over: &AtomicBool) -> Waits {
    let request = format!(
        "GET /v1/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KNOWN}\r\n\r\n"
    );
    let mut client = connect(port);
    measure(is_over, |_| {
        if is_new {
            client = connect(port);
        }
        client.write_all(request.as_bytes()).unwrap();
        answer(&mut client);
    })
}

/// Reads a whole answer.
fn answer(client: &mut TcpStream) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = client.read(&mut piece).unwrap();
        assert!(count > 0, "it was let go");
        bytes.extend(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() >= length {
            return;
        }
    }
}

/// Sends events over AMQP with a key, and waits for the outcome of each.
pub(crate) fn amqp(port: u16, hub: &str, is_over: &AtomicBool) -> Waits {
    let tasks = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let response = format!("\0RootManageSharedAccessKey\0{KNOWN}");
    let mut client = tasks.block_on(async {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        let init = sasl::SaslInit {
            mechanism: "PLAIN",
            response: response.as_bytes(),
        };
        let mut client = AmqpClient::connect(stream.unwrap(), &init).await.unwrap();
        client.begin(0).await.unwrap();
        client.attach_sender(0, 0, "good", hub);
        client.flush().await.unwrap();
        wait_for(&mut client, |it| matches!(it, Performative::Flow(_))).await;
        client
    });
    let mut message = Vec::new();
    write_event(&mut message, &[b'x'; 1000]);
    measure(is_over, |number| {
        tasks.block_on(async {
            client.send(0, 0, u32::try_from(number).unwrap(), 0, &message);
            client.flush().await.unwrap();
            wait_for(&mut client, |it| matches!(it, Performative::Disposition(_))).await;
        });
    })
}

async fn wait_for(
    client: &mut AmqpClient<tokio::net::TcpStream>,
    is_it: impl Fn(&Performative<'_>) -> bool,
) {
    loop {
        let frame = tokio::time::timeout(PATIENCE, client.next()).await;
        let frame = frame.unwrap().unwrap();
        match performative::read(&frame.body) {
            Ok((found, _)) if is_it(&found) => return,
            Ok((Performative::Detach(_) | Performative::Close(_), _)) => panic!("it was let go"),
            _ => {}
        }
    }
}

/// What the machine itself takes for a request: to a thread of this process that answers
/// what it reads.
pub(crate) fn echo(is_over: &AtomicBool) -> Waits {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut client = connect(listener.local_addr().unwrap().port());
    let (mut peer, _) = listener.accept().unwrap();
    let answering = std::thread::Builder::new().name("echo".into());
    let answer = move || {
        let mut bytes = [0; 1000];
        while peer.read_exact(&mut bytes).is_ok() && peer.write_all(&bytes).is_ok() {}
    };
    answering.spawn(answer).unwrap();
    measure(is_over, |_| {
        let mut bytes = [0; 1000];
        client.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
    })
}
