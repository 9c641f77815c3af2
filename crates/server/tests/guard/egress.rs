//! What jobs of a server may call, and what they carry there.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{KNOWN, Server, Start, until};

const SECRET: &str = "declared-secret-0123456789";

/// A server that writes down the heads of all requests, and sends those to
/// `/to/<address>` there.
struct Target {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Target {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = Arc::clone(&heads);
        let thread = std::thread::Builder::new().name("target".into());
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &all);
            }
        };
        thread.spawn(accept).unwrap();
        Self { port, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().unwrap().push(head);
    let status = match path.strip_prefix("/to/") {
        Some(to) => format!("307 Temporary Redirect\r\nlocation: {to}"),
        None => "200 OK".to_owned(),
    };
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes())
}

/// `serve` on loopback, with entries of `jobs.allow`.
fn serve(allow: &[&str]) -> Server {
    let key = format!("[[key]]\nname = 'root'\nprimary = '{SECRET}'\nrights = ['manage *']\n");
    let config = format!("[jobs]\nallow = {}\n{key}", json!(allow));
    Start::new("serve").config(&config).ready()
}

fn ask(server: &Server, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
    let home = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/c";
    let path = format!("{home}{path}?api-version=2016-03-01");
    server.ask(method, &path, &format!("Bearer {SECRET}"), body)
}

fn collection(server: &Server) {
    let body = json!({"location": "West US", "properties": {"sku": {"name": "Standard"}}});
    let (status, said) = ask(server, Method::PUT, "", Some(body));
    assert_eq!(status, StatusCode::CREATED, "{said}");
}

fn action(uri: &str) -> Value {
    json!({"type": "Http", "request": {"uri": uri, "method": "GET"},
        "retryPolicy": {"retryType": "None"}})
}

fn put(server: &Server, name: &str, action: &Value) -> (StatusCode, Value) {
    let body = json!({"properties": {"action": action}});
    ask(server, Method::PUT, &format!("/jobs/{name}"), Some(body))
}

/// Makes a job that runs at once, and answers its first history item.
fn run(server: &Server, name: &str, action: &Value) -> Value {
    let (status, said) = put(server, name, action);
    assert_eq!(status, StatusCode::CREATED, "{said}");
    until("a history item", || {
        let (_, history) = ask(server, Method::GET, &format!("/jobs/{name}/history"), None);
        let item = history["value"].get(0)?;
        Some(item["properties"].clone())
    })
}

#[track_caller]
fn assert_refused(item: &Value) {
    assert_eq!(item["status"], "Failed", "{item}");
    assert!(
        item["message"].as_str().unwrap().contains("STF-6060"),
        "{item}"
    );
}

#[test]
fn serve_calls_no_private_address_by_number_name_or_redirect() {
    let (open, closed) = (Target::start(), Target::start());
    let server = serve(&[&format!("127.0.0.1:{}", open.port)]);
    collection(&server);
    // The server's own port, another one of loopback, and metadata.
    let own = format!("{}/v1/keys", server.url);
    for uri in [
        &own,
        &closed.url("/"),
        "http://10.0.0.1/",
        "http://168.63.129.16/",
    ] {
        let (status, said) = put(&server, "bare", &action(uri));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{uri}: {said}");
        assert!(said.to_string().contains("STF-6060"), "{said}");
    }
    let by_name = format!("http://localhost:{}/", closed.port);
    assert_refused(&run(&server, "name", &action(&by_name)));
    for (name, to) in [
        ("led", &closed.url("/")),
        ("led-by-name", &by_name),
        ("home", &own),
    ] {
        let led = run(&server, name, &action(&open.url(&format!("/to/{to}"))));
        assert_refused(&led);
    }
    assert_eq!(open.heads().len(), 3, "the allowed port was called");
    let named = format!("http://localhost:{}/x", open.port);
    assert_eq!(run(&server, "open", &action(&named))["status"], "Completed");
    assert!(closed.heads().is_empty(), "{:?}", closed.heads());
}

#[test]
fn dev_calls_loopback_unless_it_is_denied() {
    let (open, denied) = (Target::start(), Target::start());
    let server = Start::new("dev")
        .set(&format!("jobs.deny=*:{}", denied.port))
        .ready();
    let home = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/c";
    let version = "api-version=2016-03-01";
    let put = |path: &str, body: Value| {
        let path = format!("{home}{path}?{version}");
        server.ask(Method::PUT, &path, &format!("Bearer {KNOWN}"), Some(body))
    };
    let made = put("", json!({"location": "West US", "properties": {}}));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let job = |uri: &str| json!({"properties": {"action": action(uri)}});
    let made = put("/jobs/open", job(&open.url("/x")));
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    until("a call", || (!open.heads().is_empty()).then_some(()));
    let refused = put("/jobs/denied", job(&denied.url("/x")));
    assert_eq!(refused.0, StatusCode::BAD_REQUEST, "{}", refused.1);
    let by_name = format!("http://localhost:{}/", denied.port);
    assert_eq!(put("/jobs/name", job(&by_name)).0, StatusCode::CREATED);
    let item = until("a history item", || {
        let (_, history) = server.get(&format!("{home}/jobs/name/history?{version}"));
        Some(history["value"].get(0)?["properties"].clone())
    });
    assert_refused(&item);
    assert!(denied.heads().is_empty(), "{:?}", denied.heads());
}

#[test]
fn a_redirect_takes_no_credentials_to_another_origin() {
    let (own, other) = (Target::start(), Target::start());
    let server = serve(&["private"]);
    collection(&server);
    let mut call = action(&own.url(&format!("/to/{}", other.url("/x"))));
    call["request"]["headers"] = json!({"X-Api-Key": "geheim", "Cookie": "session=geheim",
        "X-Functions-Key": "geheim", "X-Team": "geheim", "Accept": "text/plain"});
    call["request"]["authentication"] =
        json!({"type": "Basic", "username": "u", "password": "geheim"});
    let item = run(&server, "j", &call);
    assert_eq!(item["status"], "Completed", "{item}");
    let (sent, led) = (own.heads().remove(0), other.heads().remove(0));
    assert_eq!(sent.matches("geheim").count(), 4, "{sent}");
    assert!(sent.contains("authorization: Basic"), "{sent}");
    assert!(
        !led.contains("geheim") && !led.contains("authorization"),
        "{led}"
    );
    assert!(led.contains("accept: text/plain"), "{led}");
}

#[test]
fn a_password_stays_with_its_address() {
    let (own, other) = (Target::start(), Target::start());
    let server = serve(&["private"]);
    collection(&server);
    let mut call = action(&own.url("/x"));
    call["request"]["authentication"] =
        json!({"type": "Basic", "username": "u", "password": "geheim"});
    // It runs only by hand.
    let job = |action: &Value| {
        json!({"properties": {"action": action, "startTime": "2020-01-01T00:00:00Z",
            "recurrence": {"frequency": "Month", "interval": 1}}})
    };
    let (status, said) = ask(&server, Method::PUT, "/jobs/j", Some(job(&call)));
    assert_eq!(status, StatusCode::CREATED, "{said}");
    let mut moved = action(&other.url("/x"));
    moved["request"]["authentication"] = json!({"type": "Basic", "username": "u"});
    let body = job(&moved);
    for method in [Method::PUT, Method::PATCH] {
        let (status, said) = ask(&server, method, "/jobs/j", Some(body.clone()));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
        assert!(
            said.to_string().contains("another user or address"),
            "{said}"
        );
    }
    let imported = json!({"name": "c/j", "type": "jobs", "properties": body["properties"]});
    let (_, said) = ask(&server, Method::POST, "/import", Some(json!([imported])));
    assert_eq!(said["value"][0]["result"], "refused", "{said}");
    let (status, said) = ask(&server, Method::POST, "/jobs/j/run", None);
    assert_eq!(status, StatusCode::OK, "{said}");
    until("a call", || (own.heads().len() == 1).then_some(()));
    assert!(other.heads().is_empty(), "{:?}", other.heads());
}
