//! Connection strings, and the page at `/`.

use std::fs;
use std::path::Path;

use reqwest::{Certificate, Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use steadfast::durable;
use steadfast_client::amqp::AmqpClient as Amqp;
use steadfast_harness::Process;
use steadfast_wire::amqp::sasl;
use steadfast_wire::sas;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::running::encrypted::certificate;
use crate::running::{self, KNOWN, PATIENCE, run, run_with_key, said};

/// Base64, as accounts of blobs need it.
const SECRET: &str = "c2VjcmV0IG9mIGFuIG93bmVy";
const HIDDEN: &str = "b3RoZXIgc2VjcmV0IG9mIGEga2V5";
const LATER: i64 = 4_000_000_000;

/// A server, and what it printed when it was ready.
struct Server {
    _process: Process,
    folder: TempDir,
    ready: Value,
    url: String,
    client: Client,
}

impl Server {
    fn start(mode: &str, is_encrypted: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = running::steadfast(folder.path());
        command.args([mode, "--json", "--set", "http.port=0"]);
        if mode == "serve" {
            // The second one has the name of a key of development.
            let keys = [("owner", SECRET), ("RootManageSharedAccessKey", HIDDEN)];
            let key = |(name, secret): (&str, &str)| {
                format!("[[key]]\nname = '{name}'\nprimary = '{secret}'\nrights = ['manage *']\n")
            };
            fs::write(folder.path().join("own.toml"), keys.map(key).concat()).unwrap();
            command.args(["--config", "own.toml"]);
        }
        // Every client of the tests needs it, with and without TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(PATIENCE);
        if is_encrypted {
            let (chain, key) = certificate();
            fs::write(folder.path().join("tls.pem"), &chain).unwrap();
            fs::write(folder.path().join("tls.key"), key).unwrap();
            command.args([
                "--set",
                "tls.certificate=tls.pem",
                "--set",
                "tls.key=tls.key",
            ]);
            client = client.tls_certs_only([Certificate::from_pem(chain.as_bytes()).unwrap()]);
        }
        let mut process = Process::spawn(command).unwrap();
        let ready: Value = serde_json::from_str(&process.next_line(PATIENCE).unwrap()).unwrap();
        Self {
            _process: process,
            folder,
            url: ready["addresses"]["http"].as_str().unwrap().to_owned(),
            ready,
            client: client.build().unwrap(),
        }
    }

    fn port(&self, name: &str) -> u16 {
        let url = self.ready["addresses"][name].as_str().unwrap();
        url.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// The strings that the command prints for a key.
    fn shown(&self, url: &str, key: &str) -> Value {
        let folder = self.folder.path();
        let add = ["context", "add", "own", "--url", url];
        let ca = folder.join("tls.pem");
        let ca = ca.exists().then(|| ["--ca", ca.to_str().unwrap()]);
        let add = [&add[..], ca.as_ref().map_or(&[], |ca| &ca[..])].concat();
        assert_eq!(said(&run_with_key(folder, key, &add)).0, 0);
        let show = ["context", "show", "own", "--strings", "-o", "json"];
        let (code, printed, errors) = said(&run(folder, &show));
        assert_eq!(code, 0, "{errors}");
        serde_json::from_str(&printed).unwrap()
    }

    async fn get(&self, path: &str, key: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.url));
        request.header("authorization", key).send().await.unwrap()
    }

    async fn page(&self) -> String {
        self.get("/", "").await.text().await.unwrap()
    }
}

/// The names and codes of a page's table rows.
fn codes(page: &str) -> Vec<(String, String)> {
    let plain = |html: &str| {
        let marks = [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&#39;", "'"),
            ("&amp;", "&"),
        ];
        let plain = |text: String, (mark, own): &(&str, &str)| text.replace(mark, own);
        marks.iter().fold(html.to_owned(), plain)
    };
    let rows = page.split("<tr><th>").skip(1).filter_map(|row| {
        let (name, rest) = row.split_once("</th><td><code>")?;
        Some((plain(name), plain(rest.split_once("</code>")?.0)))
    });
    rows.collect()
}

/// What a string says of one thing.
fn part<'a>(string: &'a str, name: &str) -> &'a str {
    let mut parts = string.split(';').filter_map(|part| part.split_once('='));
    let found = parts.find(|(own, _)| *own == name);
    found.unwrap_or_else(|| panic!("{string} has no {name}")).1
}

/// Proves the key of a string of event hubs on a connection that is not encrypted.
async fn connects_by_amqp(string: &str) {
    let host = part(string, "Endpoint").strip_prefix("sb://").unwrap();
    let stream = TcpStream::connect(host).await.unwrap();
    let anonymous = sasl::SaslInit {
        mechanism: "ANONYMOUS",
        response: b"",
    };
    let mut client = Amqp::connect(stream, &anonymous).await.unwrap();
    let audience = format!("sb://{host}/houses");
    let (name, secret) = (
        part(string, "SharedAccessKeyName"),
        part(string, "SharedAccessKey"),
    );
    let wrong = sas::token(&audience, LATER, name, "wrong");
    assert_eq!(client.put_token(0, &audience, &wrong).await.unwrap(), 401);
    let token = sas::token(&audience, LATER, name, secret);
    assert_eq!(client.put_token(1, &audience, &token).await.unwrap(), 202);
}

/// Asks for an orchestration by a string of task hubs.
async fn connects_by_grpc(string: &str) {
    let client = durable::TaskHubClient::connect(string).unwrap();
    assert!(client.get("nothing", false).await.unwrap().is_none());
}

async fn opens_rest(server: &Server, header: &str) {
    let key = header.strip_prefix("Authorization: ").unwrap();
    assert_eq!(server.get("/v1/status", key).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn dev_its_page_and_the_command_show_the_same_strings() {
    for is_encrypted in [false, true] {
        let server = Server::start("dev", is_encrypted);
        let strings = &server.ready["connection_strings"];
        let mut names = vec![
            "rest", "jobs", "events", "durable", "grpc", "blob", "realtime",
        ];
        names.extend(is_encrypted.then_some("amqp"));
        let map = strings.as_object().unwrap();
        assert_eq!(map.len(), names.len(), "{map:?}");
        for host in ["127.0.0.1", "localhost"] {
            let url = server.url.replace("127.0.0.1", host);
            let shown = server.shown(&url, KNOWN);
            assert_eq!(&shown["connection_strings"], strings, "{host}");
            assert_eq!(shown["key"], "RootManageSharedAccessKey");
        }
        let page = server.page().await;
        let codes = codes(&page);
        let text = |name: &str| strings[name].as_str().unwrap().to_owned();
        for name in names {
            assert!(
                codes.contains(&(name.to_owned(), text(name))),
                "{name}: {page}"
            );
        }
        opens_rest(&server, &text("rest")).await;
        if is_encrypted {
            assert!(text("jobs").starts_with("https://localhost:"), "{strings}");
            assert!(!text("events").contains("Emulator"), "{strings}");
            connects_by_amqp(&text("amqp")).await;
            connects_by_grpc(&with_authority(&server, &text("durable"))).await;
        } else {
            connects_by_amqp(&text("events")).await;
            connects_by_grpc(&text("durable")).await;
        }
    }
}

/// Our own client takes the authority of a certificate in its string.
fn with_authority(server: &Server, string: &str) -> String {
    let ca = server.folder.path().join("tls.pem");
    format!("{string};Certificates={}", ca.display())
}

#[tokio::test]
async fn the_command_has_strings_for_a_key_of_serve() {
    let server = Server::start("serve", false);
    assert_eq!(server.ready["connection_strings"], json!({}));
    let shown = server.shown(&server.url, SECRET);
    let port = |name: &str| server.port(name);
    assert_eq!(
        shown["connection_strings"],
        json!({
            "rest": format!("Authorization: Bearer {SECRET}"),
            "jobs": format!("http://localhost:{}", port("http")),
            "events": format!(
                "Endpoint=sb://localhost:{};SharedAccessKeyName=owner;SharedAccessKey={SECRET};\
                 UseDevelopmentEmulator=true",
                port("amqp")
            ),
            "durable": format!(
                "Endpoint=http://localhost:{};TaskHub=default;AccessKey={SECRET}",
                port("durable")
            ),
            "grpc": format!("localhost:{}", port("durable")),
            "blob": format!(
                "DefaultEndpointsProtocol=http;AccountName=owner;AccountKey={SECRET};\
                 BlobEndpoint=http://127.0.0.1:{}/owner;",
                port("blob")
            ),
            "realtime": format!(
                "Endpoint=http://localhost;Port={};AccessKey={SECRET};Version=1.0;",
                port("realtime")
            ),
        })
    );
    let text = |name: &str| shown["connection_strings"][name].as_str().unwrap();
    opens_rest(&server, text("rest")).await;
    connects_by_amqp(text("events")).await;
    connects_by_grpc(text("durable")).await;
}

#[tokio::test]
async fn an_encrypted_serve_has_encrypted_strings() {
    let server = Server::start("serve", true);
    let shown = server.shown(&server.url, SECRET);
    let text = |name: &str| shown["connection_strings"][name].as_str().unwrap();
    let port = server.port("amqps");
    assert_eq!(
        part(text("events"), "Endpoint"),
        format!("sb://localhost:{port}")
    );
    assert!(!text("events").contains("Emulator"), "{shown}");
    assert!(
        text("blob").contains(";BlobEndpoint=https://127.0.0.1:"),
        "{shown}"
    );
    assert!(
        text("realtime").starts_with("Endpoint=https://localhost;"),
        "{shown}"
    );
    opens_rest(&server, text("rest")).await;
    connects_by_grpc(&with_authority(&server, text("durable"))).await;
}

#[tokio::test]
async fn a_key_has_strings_for_its_rights_only() {
    let server = Server::start("serve", false);
    let body = json!({"name": "sender", "rights": ["send events/houses"]});
    let request = server.client.post(format!("{}/v1/keys", server.url));
    let made = request
        .bearer_auth(SECRET)
        .json(&body)
        .send()
        .await
        .unwrap();
    let made: Value = made.json().await.unwrap();
    let shown = server.shown(&server.url, made["secret"].as_str().unwrap());
    let strings = shown["connection_strings"].as_object().unwrap();
    assert_eq!(strings.keys().collect::<Vec<_>>(), ["events", "rest"]);
    let events = strings["events"].as_str().unwrap();
    assert_eq!(part(events, "EntityPath"), "houses");
    connects_by_amqp(events).await;
}

#[test]
fn a_context_is_shown_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let show = |arguments: &[&str]| {
        said(&run(
            folder.path(),
            &[&["context", "show"], arguments].concat(),
        ))
    };
    // Without any context, commands go to the development server.
    let (_, printed, _) = show(&["--json"]);
    let shown: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(shown, json!({"url": "http://127.0.0.1:7070"}));
    let url = "http://127.0.0.1:1";
    let add = ["context", "add", "far", "--url", url, "--ca", "ca.pem"];
    assert_eq!(said(&run_with_key(folder.path(), SECRET, &add)).0, 0);
    for name in [&["far"][..], &[]] {
        let (code, printed, errors) = show(&[name, &["--json"]].concat());
        assert_eq!(code, 0, "{errors}");
        let shown: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(shown, json!({"name": "far", "url": url, "ca": "ca.pem"}));
        let (_, printed, _) = show(name);
        assert_eq!(printed, format!("name  far\nurl   {url}\nca    ca.pem\n"));
    }
    assert_eq!(show(&["absent"]).0, 3);
    assert_eq!(show(&["absent", "--strings"]).0, 3);
}

#[tokio::test]
async fn strings_need_a_key_that_counts() {
    let server = Server::start("serve", false);
    let add = ["context", "add", "own", "--url", &server.url];
    let added = run_with_key(server.folder.path(), "a wrong secret", &add);
    assert_eq!(said(&added).0, 0);
    let show = ["context", "show", "own", "--strings"];
    let (code, printed, errors) = said(&run(server.folder.path(), &show));
    assert_eq!((code, printed.as_str()), (1, ""));
    assert!(
        errors.contains("STF-6003") && !errors.contains("a wrong"),
        "{errors}"
    );
}

#[tokio::test]
async fn the_server_answers_a_signature_without_the_secret() {
    let server = Server::start("serve", false);
    let signed = sas::token(&format!("{}/v1/me", server.url), LATER, "owner", SECRET);
    let answer = server.get("/v1/me", &signed).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let text = answer.text().await.unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let me: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(me["name"], "owner");
    assert_eq!(
        (&me["rights"], &me["development"]),
        (&json!(["manage *"]), &json!(false))
    );
    let http = json!({"name": "http", "scheme": "http", "port": server.port("http")});
    assert_eq!(me["listeners"][0], http);
    // Where the server listens, beside its ports, is for those who may see its status.
    assert!(!text.contains("127.0.0.1"), "{text}");
}

#[tokio::test]
async fn the_page_of_serve_has_no_secret_and_no_address_but_its_own() {
    for is_encrypted in [false, true] {
        let server = Server::start("serve", is_encrypted);
        let page = server.page().await;
        for secret in [SECRET, HIDDEN, KNOWN, "owner", "Bearer", "AccessKey"] {
            assert!(!page.contains(secret), "{secret}: {page}");
        }
        let addresses = server.ready["addresses"].as_object().unwrap();
        for (name, url) in addresses.iter().filter(|(name, _)| *name != "http") {
            let place = url.as_str().unwrap().split_once("://").unwrap().1;
            let port = place.rsplit(':').next().unwrap();
            assert!(
                !page.contains(place) && !page.contains(port),
                "{port}: {page}"
            );
            assert!(page.contains(&format!("<th>{name}</th>")), "{page}");
        }
        assert!(page.contains(&format!("<h1>Steadfast {}</h1>", env!("CARGO_PKG_VERSION"))));
        let commands = codes(&page);
        let commands: Vec<_> = commands.iter().map(|(_, text)| text.as_str()).collect();
        let add = format!(
            "steadfast context add mine --url {} --key-file -",
            server.url
        );
        assert_eq!(commands, [&add, "steadfast context show mine --strings"]);
    }
}

#[tokio::test]
async fn the_page_loads_nothing_and_runs_nothing() {
    let server = Server::start("dev", false);
    let answer = server.get("/", "").await;
    assert_eq!(answer.status(), StatusCode::OK);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("cache-control"), "no-store");
    let policy = header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains("script"),
        "{policy}"
    );
    let page = answer.text().await.unwrap();
    for word in ["<script", "src=", "onload", "@import", "url("] {
        assert!(!page.contains(word), "{word}: {page}");
    }
    let links = page.split("href=\"").skip(1);
    assert!(
        links.into_iter().all(|link| link.starts_with('/')),
        "{page}"
    );
    let other = |method: Method, host: &'static str| {
        let request = server.client.request(method, &server.url);
        async move {
            let answer = request.header("host", host).send().await.unwrap();
            (answer.status(), answer.text().await.unwrap())
        }
    };
    let (status, body) = other(Method::HEAD, "localhost").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, ""));
    let (status, _) = other(Method::POST, "localhost").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let (status, body) = other(Method::GET, "evil.example").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!body.contains(KNOWN), "{body}");
}

#[tokio::test]
async fn every_command_of_the_page_works() {
    let server = Server::start("dev", false);
    let codes = codes(&server.page().await);
    let export = format!("export STEADFAST_URL={}", server.url);
    assert!(codes.iter().any(|(_, text)| *text == export), "{codes:?}");
    let commands = codes
        .iter()
        .filter_map(|(_, text)| text.strip_prefix("steadfast "));
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), 7, "{commands:?}");
    for command in commands {
        let (code, _, errors) = said(&by_url(server.folder.path(), &server.url, command));
        assert_eq!(code, 0, "{command}: {errors}");
    }
}

fn by_url(folder: &Path, url: &str, command: &str) -> std::process::Output {
    let mut own = running::steadfast(folder);
    own.env("STEADFAST_URL", url).args(command.split(' '));
    running::finish(own)
}
