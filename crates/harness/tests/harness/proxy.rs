//! The fault proxy in front of an echo server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use steadfast_harness::{Direction, FaultProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// A server that sends back what it gets, until the test ends.
async fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn proxied() -> (FaultProxy, TcpStream) {
    let proxy = FaultProxy::start(echo_server().await).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echo(&mut client, b"hello").await.unwrap(), b"hello");
    (proxy, client)
}

async fn echo(client: &mut TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    client.write_all(bytes).await?;
    let mut answer = vec![0; bytes.len()];
    timeout(LONG, client.read_exact(&mut answer)).await??;
    Ok(answer)
}

async fn read_error(client: &mut TcpStream) -> ErrorKind {
    let mut byte = [0];
    let read = timeout(LONG, client.read_exact(&mut byte)).await.unwrap();
    read.unwrap_err().kind()
}

#[tokio::test]
async fn bytes_pass_and_are_counted() {
    let (proxy, mut client) = proxied().await;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|index| (index / 7) as u8).collect();
    let (mut from, mut to) = client.split();
    let mut answer = vec![0; bytes.len()];
    let (sent, received) = tokio::join!(to.write_all(&bytes), from.read_exact(&mut answer));
    sent.unwrap();
    received.unwrap();
    assert!(answer == bytes);
    assert_eq!(proxy.bytes(Direction::ToUpstream), 3_000_005);
    assert_eq!(proxy.bytes(Direction::ToClient), 3_000_005);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn an_orderly_end_passes() {
    let (proxy, mut client) = proxied().await;
    client.write_all(b"last").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"last");
    timeout(LONG, proxy.wait_for_open(0)).await.unwrap();
}

#[tokio::test]
async fn a_cut_resets_current_connections_only() {
    let (proxy, mut client) = proxied().await;
    proxy.cut();
    assert_eq!(read_error(&mut client).await, ErrorKind::ConnectionReset);
    timeout(LONG, proxy.wait_for_open(0)).await.unwrap();
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echo(&mut next, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn refused_connections_are_reset() {
    let (proxy, mut client) = proxied().await;
    proxy.refuse(true);
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(read_error(&mut refused).await, ErrorKind::ConnectionReset);
    assert_eq!(echo(&mut client, b"still").await.unwrap(), b"still");
    proxy.refuse(false);
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echo(&mut next, b"again").await.unwrap(), b"again");
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn frozen_bytes_arrive_after_the_thaw() {
    let (proxy, mut client) = proxied().await;
    proxy.freeze(true);
    client.write_all(b"held").await.unwrap();
    let mut answer = [0; 4];
    assert!(
        timeout(SHORT, client.read_exact(&mut answer))
            .await
            .is_err()
    );
    assert_eq!(proxy.bytes(Direction::ToUpstream), 5);
    proxy.freeze(false);
    timeout(LONG, client.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"held");
}

#[tokio::test]
async fn frozen_connections_can_be_cut() {
    let (proxy, mut client) = proxied().await;
    proxy.freeze(true);
    proxy.cut();
    assert_eq!(read_error(&mut client).await, ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn delays_add_up_over_both_directions() {
    let (proxy, mut client) = proxied().await;
    proxy.delay(Direction::ToUpstream, Duration::from_millis(30));
    proxy.delay(Direction::ToClient, Duration::from_millis(40));
    let started = Instant::now();
    echo(&mut client, b"late").await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(70));
}

#[tokio::test]
async fn delayed_bytes_travel_together() {
    let (proxy, mut client) = proxied().await;
    proxy.delay(Direction::ToUpstream, Duration::from_millis(200));
    let started = Instant::now();
    for _ in 0..20 {
        client.write_all(b"x").await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = [0; 20];
    client.read_exact(&mut answer).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_cut_comes_after_exactly_the_bytes() {
    let (proxy, mut client) = proxied().await;
    proxy.cut_after_bytes(1000);
    client.write_all(&[1; 5000]).await.unwrap();
    assert_ne!(read_error(&mut client).await, ErrorKind::TimedOut);
    let carried = proxy.bytes(Direction::ToUpstream) + proxy.bytes(Direction::ToClient);
    assert_eq!(carried, 1000 + 10);
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echo(&mut next, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn throttled_bytes_take_their_time() {
    let (proxy, mut client) = proxied().await;
    proxy.throttle(Some(100_000));
    let started = Instant::now();
    let bytes = [5; 20_000];
    assert_eq!(echo(&mut client, &bytes).await.unwrap(), bytes);
    assert!(started.elapsed() >= Duration::from_millis(150));
    proxy.throttle(None);
}

#[tokio::test]
async fn connections_follow_the_route() {
    let (proxy, _client) = proxied().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    proxy.route(address);
    let mut lost = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(read_error(&mut lost).await, ErrorKind::ConnectionReset);
    proxy.route(echo_server().await);
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echo(&mut next, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn a_dropped_proxy_is_gone() {
    let (proxy, mut client) = proxied().await;
    let address = proxy.address();
    drop(proxy);
    read_error(&mut client).await;
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}
