//! Who may do what with blobs and over AMQP.
//!
//! Every operation with every proof and grant, as `guard_rights.rs` tries the routes.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::json;
use steadfast_client::amqp::ReaderLinkOptions;
use steadfast_eventhubs::amqp::WEBSOCKETS;
use steadfast_eventhubs::blob;
use steadfast_wire::amqp::address::{self, NodeAddress};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::blob::shared_key;
use steadfast_wire::sas;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::rights::{
    Allowed, Forbidden, GRANTS, LATER, On, PAST, Route, Unauthenticated, Verdict, client_token,
    secret, serve, token,
};
use crate::running::Server;

/// What every operation on blobs is expected to need, and how it is asked for.
const BLOBS: [(&str, &str, &str, &[&str]); 13] = [
    (
        "CreateContainer",
        "PUT",
        "?restype=container",
        &["listen", "send"],
    ),
    (
        "ReadContainer",
        "GET",
        "?restype=container",
        &["listen read"],
    ),
    (
        "DeleteContainer",
        "DELETE",
        "?restype=container",
        &["whole"],
    ),
    (
        "List",
        "GET",
        "?restype=container&comp=list&prefix=n/mine/g/ownership/",
        &["listen read"],
    ),
    ("Put", "PUT", BLOB, &["listen", "send"]),
    (
        "Describe",
        "PUT",
        "/n/mine/g/ownership/0?comp=metadata",
        &["listen", "send"],
    ),
    ("Read", "GET", BLOB, &["listen read"]),
    ("Head", "HEAD", BLOB, &["listen read"]),
    ("Delete", "DELETE", BLOB, &["listen", "send"]),
    (
        "PutBlock",
        "PUT",
        "/n/mine/g/ownership/0?comp=block&blockid=MA==",
        &["listen", "send"],
    ),
    (
        "PutBlocks",
        "PUT",
        "/n/mine/g/ownership/0?comp=blocklist",
        &["listen", "send"],
    ),
    (
        "ReadBlocks",
        "GET",
        "/n/mine/g/ownership/0?comp=blocklist",
        &["listen read"],
    ),
    (
        "Lease",
        "PUT",
        "/n/mine/g/ownership/0?comp=lease",
        &["listen", "send"],
    ),
];

const BLOB: &str = "/n/mine/g/ownership/0";

#[test]
fn every_operation_on_blobs_asks_for_its_rights() {
    let server = serve();
    let port = server.port_of_with("blob", &secret("root"));
    let known: BTreeSet<_> = BLOBS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let offered: BTreeSet<_> = blob::operations().into_iter().collect();
    assert_eq!(
        offered, known,
        "every operation has a row here, and every row one"
    );
    let request = server.client.get(format!("{}/livez", server.url));
    let answer = server.block(async { request.send().await.unwrap() });
    let date = answer.headers()["date"].to_str().unwrap().to_owned();
    let ask = |verb: &str, rest: &str, account: &str, key: &str, date: &str| {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = format!("/shared/box{path}");
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        let parameters: Vec<_> = pairs.map(pair).collect();
        let headers = [
            ("x-ms-date".to_owned(), date.to_owned()),
            ("x-ms-version".to_owned(), "2021-12-02".to_owned()),
        ];
        let signed = shared_key::Request {
            verb,
            path: &path,
            parameters: &parameters,
            headers: &headers,
        };
        let header = shared_key::header(account, key, &signed).unwrap();
        let url = format!("http://127.0.0.1:{port}{path}?{query}");
        let mut request = server.client.request(verb.parse().unwrap(), url);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", header);
        let answer = server.block(async { request.send().await.unwrap() });
        let code = answer.headers().get("x-ms-error-code");
        match code.and_then(|code| code.to_str().ok()) {
            Some("AuthenticationFailed") => Unauthenticated,
            Some("AuthorizationPermissionMismatch") => Forbidden,
            _ => Allowed,
        }
    };
    for (name, verb, rest, needs) in BLOBS {
        let is_somewhere = rest.starts_with("?restype=container") && !rest.contains("comp");
        let on = match (name, is_somewhere) {
            ("DeleteContainer", _) => On::Whole,
            (_, true) => On::Anything,
            (_, false) => On::Mine,
        };
        let route = Route {
            method: Method::GET,
            path: String::new(),
            area: "events",
            on,
            needs: needs.iter().map(|need| need.split(' ').collect()).collect(),
            audience: None,
        };
        let by = |key: &str| ask(verb, rest, key, &secret(key), &date);
        let wrong = ask(verb, rest, "eventsmanage", &secret("wrong"), &date);
        assert_eq!(wrong, Unauthenticated, "{name}: wrong");
        let unknown = ask(verb, rest, "absent", &secret("absent"), &date);
        assert_eq!(unknown, Unauthenticated, "{name}: unknown");
        let old = "Thu, 01 Jan 2015 00:00:00 GMT";
        let old = ask(verb, rest, "root", &secret("root"), old);
        assert_eq!(old, Unauthenticated, "{name}: expired");
        assert_eq!(by("none"), Forbidden, "{name}: no grant");
        assert_eq!(
            by("eventsother"),
            route.expected_of_other(),
            "{name}: other entity"
        );
        for grant in GRANTS {
            // A right on one event hub is none on a whole container.
            let expected = match on {
                On::Whole => Forbidden,
                _ => route.expected(grant),
            };
            assert_eq!(by(&format!("events{grant}")), expected, "{name}: {grant}");
        }
        assert_eq!(by("root"), Allowed, "{name}: root");
    }
}

/// A stream of bytes, whatever carries it.
trait Pipe: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Pipe for T {}

/// How a client reaches AMQP.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tcp(u16),
    WebSocket(u16, &'static str),
}

impl Way {
    async fn connect(self) -> Box<dyn Pipe> {
        match self {
            Self::Tcp(port) => Box::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap()),
            Self::WebSocket(port, path) => Box::new(websocket(port, path).await),
        }
    }
}

/// Binary messages of a WebSocket as a stream.
async fn websocket(port: u16, path: &str) -> DuplexStream {
    let mut request = format!("ws://127.0.0.1:{port}{path}")
        .into_client_request()
        .unwrap();
    let protocol = "AMQPWSB10".parse().unwrap();
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocol);
    let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let (own, bridged) = tokio::io::duplex(64 * 1024);
    let (mut sink, mut source) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(bridged);
    tokio::spawn(async move {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            let message = Message::Binary(buffer[..count].to_vec().into());
            if sink.send(message).await.is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(Ok(message)) = source.next().await {
            if writer.write_all(&message.into_data()).await.is_err() {
                break;
            }
        }
    });
    own
}

/// What a client proves, and how.
#[derive(Clone, Copy, Debug)]
enum Login<'a> {
    /// Nothing, by a mechanism without a secret.
    Nothing(&'a str),
    /// A token of a kind, put to `$cbs`.
    Token(&'a str, &'a str),
    /// A key's name and secret, by SASL PLAIN.
    Plain(&'a str, &'a str),
}

/// What AMQP answers to a proof and, if it takes it, to a link.
fn amqp(server: &Server, way: Way, login: Login<'_>, to: &str) -> Verdict {
    server.block(async {
        let plain;
        let (mechanism, response) = match login {
            Login::Nothing(mechanism) => (mechanism, &b""[..]),
            Login::Token(..) => ("ANONYMOUS", &b""[..]),
            Login::Plain(name, secret) => {
                plain = format!("\0{name}\0{secret}");
                ("PLAIN", plain.as_bytes())
            }
        };
        let init = sasl::SaslInit {
            mechanism,
            response,
        };
        let mut peer = match steadfast_client::amqp::AmqpClient::connect(way.connect().await, &init)
            .await
        {
            Ok(peer) => peer,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Unauthenticated,
            Err(error) => panic!("{error}"),
        };
        if let Login::Token(kind, token) = login {
            let put = peer.put_proof(0, kind, "sb://localhost/mine", token).await;
            match put.unwrap() {
                202 => {}
                401 => return Unauthenticated,
                other => panic!("{other}"),
            }
        }
        if let Some(NodeAddress::Management) = address::parse(to) {
            let wishes = [
                ("operation", "READ"),
                ("type", "com.microsoft:eventhub"),
                ("name", "mine"),
            ];
            let status = peer.ask(1, to, &wishes, None).await.unwrap();
            return if status == 401 { Forbidden } else { Allowed };
        }
        peer.begin(1).await.unwrap();
        match address::parse(to) {
            Some(NodeAddress::Reader { .. }) => {
                peer.attach_reader(1, 0, "l", to, &ReaderLinkOptions::default())
            }
            _ => peer.attach_sender(1, 0, "l", to),
        }
        peer.flush().await.unwrap();
        loop {
            let frame = peer.next().await.unwrap();
            // There is no event hub: who may look for it hears that.
            if let Ok((Performative::Detach(detach), _)) = performative::read(&frame.body) {
                let problem = detach.error.unwrap();
                let is_refused = problem.condition == "amqp:unauthorized-access";
                return if is_refused { Forbidden } else { Allowed };
            }
        }
    })
}

/// What a link to a node needs. A kind of node that is not here does not compile.
fn needs(node: &NodeAddress<'_>) -> &'static [&'static str] {
    match node {
        // Tokens are put there: by every row below.
        NodeAddress::Cbs => &GRANTS,
        NodeAddress::Management => &["send", "listen", "read"],
        NodeAddress::Hub(_) | NodeAddress::Partition { .. } | NodeAddress::Publisher { .. } => {
            &["send"]
        }
        NodeAddress::Reader { .. } => &["listen"],
    }
}

const ADDRESSES: [&str; 5] = [
    "$management",
    "mine",
    "mine/Partitions/0",
    "mine/Publishers/p",
    "mine/ConsumerGroups/$Default/Partitions/0",
];

/// Tries every key by a proof of its name and secret.
fn try_keys(name: &str, to: &str, by: &dyn Fn(&str, &str) -> Verdict) {
    let needed = needs(&address::parse(to).unwrap());
    for (key, wrong) in [("eventsmanage", "wrong"), ("absent", "wrong")] {
        assert_eq!(by(key, wrong), Unauthenticated, "{name}: wrong");
    }
    assert_eq!(by("none", &secret("none")), Unauthenticated, "{name}: none");
    let other = by("eventsother", &secret("eventsother"));
    assert_eq!(other, Forbidden, "{name}: other entity");
    for grant in GRANTS {
        let key = format!("events{grant}");
        let expected = if needed.contains(&grant) || grant == "manage" {
            Allowed
        } else {
            Forbidden
        };
        assert_eq!(by(&key, &secret(&key)), expected, "{name}: {grant}");
    }
}

/// Tries every proof and grant on every link, by one way.
fn try_links(server: &Server, way: Way, client_token: &str) {
    for to in ADDRESSES {
        let name = format!("{to} by {way:?}");
        // Without a token a link is refused itself.
        for mechanism in ["ANONYMOUS", "MSSBCBS", "EXTERNAL"] {
            let nothing = amqp(server, way, Login::Nothing(mechanism), to);
            assert_eq!(nothing, Forbidden, "{name}: {mechanism}");
        }
        let unknown = amqp(server, way, Login::Nothing("LOGIN"), to);
        assert_eq!(unknown, Unauthenticated, "{name}: another mechanism");
        try_keys(&format!("{name}, PLAIN"), to, &|key, secret| {
            amqp(server, way, Login::Plain(key, secret), to)
        });
        let signed = |key: &str, expiry: i64, secret: &str| {
            let token = sas::token("sb://localhost/mine", expiry, key, secret);
            let kind = "servicebus.windows.net:sastoken";
            amqp(server, way, Login::Token(kind, &token), to)
        };
        try_keys(&format!("{name}, SAS"), to, &|key, secret| {
            signed(key, LATER, secret)
        });
        let key = "eventsmanage";
        let past = signed(key, PAST, &secret(key));
        assert_eq!(past, Unauthenticated, "{name}: expired");
        let web = |audience: &str, exp: i64| {
            let claims = json!({"aud": audience, "exp": exp});
            let token = token(&claims, &secret(key));
            amqp(server, way, Login::Token("jwt", &token), to)
        };
        let own = "https://eventhubs.azure.net";
        assert_eq!(web(own, LATER), Allowed, "{name}: web token");
        assert_eq!(web(own, PAST), Unauthenticated, "{name}: expired token");
        let stray = web("https://durabletask.io", LATER);
        assert_eq!(stray, Unauthenticated, "{name}: other audience");
        let hub = amqp(server, way, Login::Token("jwt", client_token), to);
        assert_eq!(hub, Unauthenticated, "{name}: token of a hub client");
    }
}

#[test]
fn every_link_of_amqp_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    let port = server.port_of_with("amqp", &secret("root"));
    try_links(&server, Way::Tcp(port), &client_token);
}

#[test]
fn every_link_of_amqp_inside_a_websocket_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    for path in WEBSOCKETS {
        try_links(&server, Way::WebSocket(server.port(), path), &client_token);
    }
}
