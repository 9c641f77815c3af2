//! Clients of hubs, by the command line.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use steadfast::realtime::{Context, HubResult, ShutdownMode};
use steadfast::{AppServer, hub};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::running::{self, KNOWN, PATIENCE, Server, Start, said, steadfast};

const KEY: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

#[derive(Default)]
struct Chat;

#[hub]
impl Chat {
    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }
}

/// Runs a command against the server.
fn ask(server: &Server, arguments: &[&str]) -> (i32, String, String) {
    let mut command = steadfast(server.folder.path());
    command.args(arguments);
    command
        .env("STEADFAST_URL", &server.url)
        .env("STEADFAST_KEY", KNOWN);
    said(&running::finish(command))
}

fn json(server: &Server, arguments: &[&str]) -> Value {
    let all = [arguments, &["--json"]].concat();
    let (code, out, error) = ask(server, &all);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn clients_of_an_app_server_are_listed_told_and_closed() {
    let server = Start::new("dev").ready();
    let port = server.url.rsplit(':').next().unwrap();
    let service = format!("Endpoint=http://127.0.0.1;Port={port};AccessKey={KEY};Version=1.0;");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = runtime.block_on(async {
        let app = AppServer::builder(&service)
            .name("one")
            .shutdown_mode(ShutdownMode::MigrateClients)
            .hub::<Chat>("chat")
            .start()
            .unwrap();
        let ready = tokio::time::timeout(PATIENCE, app.ready()).await;
        ready.expect("the service welcomes it");
        app
    });
    let (code, token, error) = ask(&server, &["client", "token", "chat", "--user", "alice"]);
    assert_eq!(code, 0, "{error}");
    let url = format!(
        "ws://127.0.0.1:{port}/client/?hub=chat&access_token={}",
        token.trim()
    );
    let mut socket = runtime.block_on(async {
        let (mut socket, _) = connect_async(url).await.unwrap();
        let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
        socket.send(Message::text(hello)).await.unwrap();
        assert_eq!(
            socket.next().await.unwrap().unwrap(),
            Message::text("{}\u{1e}")
        );
        let call = r#"{"type":1,"invocationId":"1","target":"enter","arguments":["g"]}"#;
        socket
            .send(Message::text(format!("{call}\u{1e}")))
            .await
            .unwrap();
        socket.next().await.unwrap().unwrap();
        socket
    });
    let listed = json(&server, &["client", "list", "chat"]);
    let client = &listed["clients"][0];
    assert_eq!(
        (&client["user"], &client["server"]),
        (&"alice".into(), &"one".into())
    );
    assert_eq!(client["groups"][0], "g");
    let id = client["id"].as_str().unwrap().to_owned();
    let shown = json(&server, &["client", "show", "chat", &id]);
    assert_eq!(shown["protocol"], "json");
    let servers = json(&server, &["appserver", "list", "chat"]);
    assert_eq!(servers["servers"][0]["clients"], 1);
    let sent = ask(
        &server,
        &["client", "send", "chat", "told", "7", "a b", "--group", "g"],
    );
    assert_eq!(sent.0, 0, "{}", sent.2);
    let told = runtime.block_on(socket.next()).unwrap().unwrap();
    let expected = "{\"type\":1,\"target\":\"told\",\"arguments\":[7,\"a b\"]}\u{1e}";
    assert_eq!(told, Message::text(expected));
    let other = runtime.block_on(async {
        let other = AppServer::builder(&service).name("two").hub::<Chat>("chat");
        let other = other.start().unwrap();
        other.ready().await;
        other
    });
    let sheet = json(&server, &["appserver", "drain", "chat", "one"]);
    let expected = serde_json::json!({
        "server": "one", "clients": 1, "moved": 1, "closed": 0, "left": 0
    });
    assert_eq!(sheet, expected);
    let (code, out, _) = ask(&server, &["appserver", "drain", "chat", "one"]);
    assert_eq!(
        (code, &*out),
        (0, "one: 0 clients, 1 moved, 0 closed, 0 left\n")
    );
    let shown = json(&server, &["client", "show", "chat", &id]);
    assert_eq!(shown["server"], "two");
    let servers = json(&server, &["appserver", "list", "chat"]);
    assert_eq!(servers["servers"][0]["state"], "offline");
    assert_eq!(ask(&server, &["appserver", "drain", "chat", "absent"]).0, 3);
    assert_eq!(ask(&server, &["client", "close", "chat", &id]).0, 0);
    let closed = runtime.block_on(socket.next()).unwrap().unwrap();
    let expected = "{\"type\":7,\"error\":\"Closed by an operator.\"}\u{1e}";
    assert_eq!(closed, Message::text(expected));
    assert_eq!(ask(&server, &["client", "show", "chat", "absent"]).0, 3);
    assert_eq!(ask(&server, &["client", "list", "nothing"]).0, 3);
    let left = runtime.block_on(app.shutdown());
    assert_eq!(left, 0);
    assert_eq!(runtime.block_on(other.shutdown()), 0);
}
