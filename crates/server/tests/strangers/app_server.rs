//! An app server that sends messages without an end.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use steadfast_wire::jwt;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::service::{ConnectionData, Message, ServerHandshake, read, write};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::attacks::HUB_KEY;
use crate::running::PATIENCE;

const HUB: &str = "endless";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Sends so many parts of 1 MiB to a client, which is let go for it.
pub(crate) async fn partial_messages(port: u16, parts: usize) {
    let mut server = open(port).await;
    let token = token("client");
    let url = format!("ws://localhost:{port}/client/?hub={HUB}&access_token={token}");
    let (mut client, _) = connect_async(url).await.unwrap();
    let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
    client.send(Frame::text(hello)).await.unwrap();
    let mut splitter = Splitter::default();
    let Message::Open(opened) = next(&mut server, &mut splitter).await else {
        panic!("no client came");
    };
    let part = write(&Message::Data(ConnectionData {
        connection: opened.connection,
        payload: vec![b'x'; 1 << 20].into(),
        is_partial: true,
        ..ConnectionData::default()
    }));
    for _ in 0..parts {
        server.send(Frame::Binary(part.clone())).await.unwrap();
    }
    let last = tokio::time::timeout(PATIENCE, client.next()).await;
    let said = last.expect("it is let go").expect("a frame").unwrap();
    let said = said.to_text().unwrap();
    assert!(said.contains("The message is too long."), "{said}");
}

/// A token for one side of the hub.
fn token(side: &str) -> String {
    let audience = format!("http://localhost/{side}/?hub={HUB}");
    let claims = json!({"aud": audience, "exp": 9_999_999_999_u64, "nameid": "app"});
    jwt::token(claims.as_object().unwrap(), HUB_KEY)
}

/// A link of an app server that was welcomed.
async fn open(port: u16) -> Socket {
    let token = token("server");
    let url = format!("ws://localhost:{port}/server/?hub={HUB}&cid=1");
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers.insert("x-asrs-server-id", "app".parse().unwrap());
    let (mut socket, _) = connect_async(request).await.unwrap();
    let handshake = Message::Handshake(ServerHandshake {
        version: 1,
        elements: 7,
        ..ServerHandshake::default()
    });
    socket.send(Frame::Binary(write(&handshake))).await.unwrap();
    let mut splitter = Splitter::default();
    let welcome = next(&mut socket, &mut splitter).await;
    assert!(matches!(welcome, Message::Welcome { .. }), "{welcome:?}");
    socket
}

/// The next message that is no ping.
async fn next(socket: &mut Socket, splitter: &mut Splitter) -> Message {
    loop {
        let next = splitter.next(Protocol::MessagePack, 1 << 20).unwrap();
        if let Some(message) = next {
            let body = frame::body(Protocol::MessagePack, &message).unwrap();
            match read(&body).unwrap() {
                Message::Ping(_) => continue,
                message => return message,
            }
        }
        let frame = tokio::time::timeout(PATIENCE, socket.next()).await;
        let frame = frame.expect("something comes").expect("a frame").unwrap();
        splitter.push(frame.into_data());
    }
}
