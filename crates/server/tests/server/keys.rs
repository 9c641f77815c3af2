//! Keys: wrong, expired, rotated, and never in a log.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast::net::access::{AccessControl, Grant, Key, KeyRing, Secret};

use crate::running::{self, KNOWN, Server, Start, said};

const DECLARED: &str = "declared-secret-0123456789";
const SECOND: &str = "second-secret-0123456789";

fn serve() -> Server {
    let text = format!(
        "[[key]]\nname = 'root'\nprimary = '{DECLARED}'\nsecondary = '{SECOND}'\nrights = ['manage *']\n\
         [[key]]\nname = 'sender'\nprimary = 'sender-secret-0123456789'\nrights = ['send events']\n"
    );
    Start::new("serve")
        .set("log.level=trace")
        .config(&text)
        .ready()
}

fn status(server: &Server, authorization: &str) -> (StatusCode, Value) {
    let (status, body) = server.ask(Method::GET, "/v1/status", authorization, None);
    (status, body["error"]["code"].clone())
}

fn bearer(server: &Server, key: &str) -> (StatusCode, Value) {
    status(server, &format!("Bearer {key}"))
}

/// A shared access signature as clients make them, that ends at a time.
fn signature(server: &Server, key: &str, expiry: i64) -> String {
    steadfast_wire::sas::token(&format!("{}/v1", server.url), expiry, "root", key)
}

#[test]
fn each_wrong_proof_gets_its_status_and_code() {
    let server = serve();
    let cases = [
        ("", StatusCode::UNAUTHORIZED, "STF-6001"),
        ("Basic eDp5", StatusCode::UNAUTHORIZED, "STF-6001"),
        (
            "SharedAccessSignature nonsense",
            StatusCode::UNAUTHORIZED,
            "STF-6002",
        ),
        ("Bearer wrong", StatusCode::UNAUTHORIZED, "STF-6003"),
        ("Bearer SAS_KEY_VALUE", StatusCode::UNAUTHORIZED, "STF-6003"),
        (
            "Bearer sender-secret-0123456789",
            StatusCode::FORBIDDEN,
            "STF-6005",
        ),
    ];
    for (proof, expected, code) in cases {
        assert_eq!(status(&server, proof), (expected, json!(code)), "{proof}");
    }
    assert_eq!(bearer(&server, DECLARED).0, StatusCode::OK);
    assert_eq!(bearer(&server, SECOND).0, StatusCode::OK);
}

/// The code in the answer to a request with this header, in whatever form the listener
/// answers.
fn code_of(server: &Server, method: &Method, url: &str, authorization: Option<&str>) -> String {
    let mut request = server.client.request(method.clone(), url);
    if let Some(header) = authorization {
        request = request.header("authorization", header);
    }
    let text = server.block(async {
        let answer = request.send().await.unwrap();
        answer.text().await.unwrap()
    });
    let start = text.find("STF-").unwrap_or_else(|| panic!("{url}: {text}"));
    text[start..start + 8].to_owned()
}

#[test]
fn a_missing_key_is_told_from_a_wrong_one_on_every_listener() {
    let server = serve();
    let rest = &server.url;
    let port = |name: &str| {
        let port = server.port_of_with(name, DECLARED);
        format!("http://127.0.0.1:{port}")
    };
    let (realtime, blob) = (port("realtime"), port("blob"));
    let durable = format!("{rest}/runtime/webhooks/durabletask/instances");
    let jobs = "subscriptions/main/providers/Microsoft.Scheduler/jobCollections";
    let places = [
        (Method::GET, format!("{rest}/v1/status")),
        (Method::GET, durable.clone()),
        (Method::GET, format!("{rest}/{jobs}?api-version=2016-03-01")),
        (Method::POST, format!("{rest}/houses/messages")),
        (
            Method::POST,
            format!("{realtime}/api/hubs/chat/:send?api-version=2022-06-01"),
        ),
        (
            Method::GET,
            format!("{blob}/root/container?restype=container&comp=list"),
        ),
    ];
    let none = ["", "Bearer", "SharedAccessSignature", "SharedKey"];
    for (method, url) in &places {
        assert_eq!(code_of(&server, method, url, None), "STF-6001", "{url}");
        for header in none {
            let code = code_of(&server, method, url, Some(header));
            assert_eq!(code, "STF-6001", "{url}: {header:?}");
        }
    }
    for (method, url) in &places[..4] {
        let code = code_of(&server, method, url, Some("Bearer wrong"));
        assert_eq!(code, "STF-6003", "{url}");
    }
    // A signature may be missing although the key is named; known and unknown names alike.
    let (method, url) = &places[5];
    for name in ["root", "ghost"] {
        let header = format!("SharedKey {name}:");
        assert_eq!(code_of(&server, method, url, Some(&header)), "STF-6001");
    }
    for (code, expected) in [("", "STF-6001"), ("wrong", "STF-6003")] {
        let url = format!("{durable}?code={code}");
        assert_eq!(code_of(&server, &Method::GET, &url, None), expected);
    }
}

#[test]
fn a_signature_counts_until_it_ends() {
    let server = serve();
    let fresh = signature(&server, DECLARED, 4_000_000_000);
    assert_eq!(status(&server, &fresh).0, StatusCode::OK);
    let ended = signature(&server, DECLARED, 1_000_000_000);
    assert_eq!(
        status(&server, &ended),
        (StatusCode::UNAUTHORIZED, json!("STF-6004"))
    );
    let wrong = signature(&server, "another", 4_000_000_000);
    assert_eq!(
        status(&server, &wrong),
        (StatusCode::UNAUTHORIZED, json!("STF-6003"))
    );
}

#[test]
fn a_rotated_key_counts_with_its_last_two_secrets() {
    let server = Start::new("dev").ready();
    let secret = |arguments: &[&str]| {
        let (code, printed, errors) = said(&server.run(arguments));
        assert_eq!(code, 0, "{errors}");
        let made: Value = serde_json::from_str(&printed).unwrap();
        made["secret"].as_str().unwrap().to_owned()
    };
    let create = ["key", "create", "ops", "--right", "manage node", "--json"];
    let first = secret(&create);
    assert_eq!(bearer(&server, &first).0, StatusCode::OK);
    let second = secret(&["key", "rotate", "ops", "--json"]);
    assert_eq!(bearer(&server, &first).0, StatusCode::OK);
    assert_eq!(bearer(&server, &second).0, StatusCode::OK);
    let third = secret(&["key", "rotate", "ops", "--json"]);
    assert_eq!(
        bearer(&server, &first),
        (StatusCode::UNAUTHORIZED, json!("STF-6003"))
    );
    assert_eq!(bearer(&server, &second).0, StatusCode::OK);
    assert_eq!(bearer(&server, &third).0, StatusCode::OK);
    let (code, printed, _) = said(&server.run(&["key", "list"]));
    assert_eq!(code, 0);
    let row = printed
        .lines()
        .find(|line| line.starts_with("ops"))
        .unwrap();
    assert!(
        row.contains("manage node") && row.contains('2'),
        "{printed}"
    );
    assert_eq!(said(&server.run(&["key", "delete", "--yes", "ops"])).0, 0);
    assert_eq!(bearer(&server, &third).0, StatusCode::UNAUTHORIZED);
}

#[test]
fn keys_that_are_not_there_or_stand_elsewhere_cannot_be_changed() {
    let server = Start::new("dev").ready();
    assert_eq!(said(&server.run(&["key", "rotate", "absent"])).0, 3);
    assert_eq!(
        said(&server.run(&["key", "delete", "--yes", "absent"])).0,
        3
    );
    let (code, _, errors) =
        said(&server.run(&["key", "delete", "--yes", "RootManageSharedAccessKey"]));
    assert_eq!(code, 1);
    assert!(errors.contains("is a development key"), "{errors}");
    let create = ["key", "create", "a", "--right", "send houses"];
    let (code, _, errors) = said(&server.run(&create));
    assert_eq!(code, 1);
    assert!(errors.contains("'send houses' is not a right"), "{errors}");
    for name in ["", "..", "a/b"] {
        let body = json!({"name": name, "rights": ["manage *"]});
        assert_eq!(
            server.post("/v1/keys", body).0,
            StatusCode::BAD_REQUEST,
            "{name}"
        );
    }
}

/// All keys use that account of the blob endpoint.
#[test]
fn no_key_has_the_name_of_the_shared_blob_account() {
    let server = Start::new("dev").ready();
    let create = ["key", "create", "shared", "--right", "manage events"];
    let (code, _, errors) = said(&server.run(&create));
    assert_eq!(code, 1);
    assert!(errors.contains("'shared' is the account"), "{errors}");
    let body = json!({"name": "Shared", "rights": ["manage events"]});
    assert_eq!(server.post("/v1/keys", body).0, StatusCode::BAD_REQUEST);
    let create = ["key", "create", "sharing", "--right", "manage events"];
    assert_eq!(said(&server.run(&create)).0, 0);
}

#[test]
fn keys_made_at_the_same_time_are_all_kept() {
    let server = Start::new("dev").ready();
    let make = |number: usize| {
        let request = server
            .client
            .post(format!("{}/v1/keys", server.url))
            .bearer_auth(KNOWN);
        let body = json!({"name": format!("k{number}"), "rights": ["send events"]});
        let request = request.json(&body);
        tokio::spawn(async move { request.send().await.unwrap().status() })
    };
    server.block(async {
        let made: Vec<_> = (0..20).map(make).collect();
        for made in made {
            assert_eq!(made.await.unwrap(), StatusCode::CREATED);
        }
    });
    let (_, keys) = server.get("/v1/keys");
    let ours = keys
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["from"] == "keys");
    assert_eq!(ours.count(), 20);
}

#[test]
fn keys_are_there_after_a_restart() {
    let mut server = Start::new("dev").ready();
    let (_, made) = server.post("/v1/keys", json!({"name": "a", "rights": ["manage node"]}));
    let secret = made["secret"].as_str().unwrap().to_owned();
    server.process.kill().unwrap();
    let folder = server.folder.path().join("steadfast-data");
    let again = Start::new("dev")
        .set(&format!("data={}", folder.display()))
        .ready();
    assert_eq!(bearer(&again, &secret).0, StatusCode::OK);
}

#[test]
fn no_secret_is_in_any_log() {
    let mut server = serve();
    let root = format!("Bearer {DECLARED}");
    let body = json!({"name": "made", "rights": ["manage node"]});
    let (_, made) = server.ask(Method::POST, "/v1/keys", &root, Some(body));
    let made = made["secret"].as_str().unwrap().to_owned();
    let (_, rotated) = server.ask(Method::POST, "/v1/keys/made/rotate", &root, None);
    let rotated = rotated["secret"].as_str().unwrap().to_owned();
    let signed = signature(&server, SECOND, 4_000_000_000);
    for proof in [
        &root,
        &signed,
        &format!("Bearer {rotated}"),
        "Bearer not-a-key-of-ours",
    ] {
        status(&server, proof);
    }
    server.ask(Method::GET, "/v1/keys", &root, None);
    server.signal(rustix::process::Signal::HUP);
    server.logged("node.reloaded");
    server.process.terminate().unwrap();
    let (_, printed) = server.ended();
    let all = printed + &server.log();
    // It was logged at the lowest level, so there is something to look through.
    assert!(all.contains("access.denied"), "{all}");
    let signed = signed
        .split("sig=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    for secret in [
        DECLARED,
        SECOND,
        &made,
        &rotated,
        signed,
        "not-a-key-of-ours",
    ] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    let shown = said(&running::run(
        server.folder.path(),
        &["config", "show", "--json"],
    ));
    assert!(!shown.1.contains(DECLARED), "{}", shown.1);
}

#[test]
fn whoever_embeds_a_server_sees_no_secret_either() {
    let mut ring = KeyRing::new();
    ring.add(Key {
        name: "a".to_owned(),
        grants: vec![Grant::everything()],
        primary: Secret::new(DECLARED),
        secondary: None,
    });
    let access = AccessControl::new(
        ring,
        std::sync::Arc::new(steadfast::clock::SystemClock::new()),
    );
    assert!(!format!("{:?}", access.ring()).contains(DECLARED));
}
