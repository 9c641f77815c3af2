//! What jobs do outside: requests, redirects, queues.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steadfast_net::listen::Certificate;
use steadfast_wire::sas::Sas;

use crate::stage::{self, Setup, Stage, Target, http_action, job};

/// One attempt only.
fn single(mut action: Value) -> Value {
    action["retryPolicy"] = json!({"retryType": "None"});
    json!({"action": action})
}

fn with(mut action: Value, change: impl Fn(&mut Value)) -> Value {
    change(&mut action["request"]);
    action
}

/// Makes a job that runs at once, and answers its first history item.
async fn run(stage: &Stage, name: &str, properties: Value) -> Value {
    let made = stage.put(name, properties).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    stage.history_of(name, 1).await.remove(0)["properties"].clone()
}

#[tokio::test]
async fn jobs_32_a_dead_target_gets_five_requests_by_default() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let mut action = http_action(&target.url("/status/503"));
    action["retryPolicy"] = json!({"retryType": "Fixed", "retryInterval": "PT0.1S"});
    stage.put("j", json!({"action": action})).await;
    let history = stage.history_of("j", 5).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(target.seen().len(), 5);
    assert!(
        history
            .iter()
            .all(|item| item["properties"]["status"] == "Failed")
    );
    let retries: Vec<_> = history
        .iter()
        .map(|item| item["properties"]["retryCount"].as_u64().unwrap())
        .collect();
    assert_eq!(retries, [4, 3, 2, 1, 0]);
    let found = stage.get("j").await["properties"].clone();
    assert_eq!(
        (&found["state"], &found["status"]["faultedCount"]),
        (&json!("Faulted"), &json!(1))
    );
    // A job without a policy shows none, and has the same one: see the unit tests.
}

#[tokio::test]
async fn jobs_34_an_error_action_may_be_of_another_type() {
    let (main, bus) = (Target::start(), Target::start());
    bus.answer_always(Some(201));
    let endpoint = bus.base.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| {
            options.endpoints.insert("ns".into(), endpoint);
        }),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let mut action = http_action(&main.url("/status/500"));
    action["retryPolicy"] =
        json!({"retryType": "Fixed", "retryInterval": "PT0.1S", "retryCount": 1});
    action["errorAction"] = json!({"type": "ServiceBusTopic", "serviceBusTopicMessage": {
        "namespace": "ns", "topicPath": "failures", "message": "it failed"}});
    stage.put("j", json!({"action": action})).await;
    let history = stage.history_of("j", 3).await;
    let names: Vec<_> = history
        .iter()
        .map(|item| item["properties"]["actionName"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ErrorAction", "MainAction", "MainAction"]);
    assert_eq!((main.seen().len(), bus.seen().len()), (2, 1));
    assert!(bus.seen()[0].at > Duration::ZERO);
    assert_eq!(stage.get("j").await["properties"]["state"], "Faulted");
}

#[tokio::test]
async fn jobs_36_a_slow_target_fails_at_the_limit() {
    let target = Target::start();
    let stage = Stage::with(Setup {
        outbound: Box::new(|options| {
            assert_eq!(options.timeout, Duration::from_secs(60), "the usual limit");
            options.timeout = Duration::from_millis(2500);
        }),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let item = run(
        &stage,
        "slow",
        single(http_action(&target.url("/slow/20000"))),
    )
    .await;
    assert_eq!(item["status"], "Failed");
    assert!(
        item["message"]
            .as_str()
            .unwrap()
            .contains("given up after 2.5 seconds"),
        "{item}"
    );
    let item = run(
        &stage,
        "quick",
        single(http_action(&target.url("/slow/50"))),
    )
    .await;
    assert_eq!(item["status"], "Completed");
}

#[tokio::test]
async fn jobs_37_accepted_is_success() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    for (code, expected) in [
        (200, "Completed"),
        (202, "Completed"),
        (204, "Completed"),
        (304, "Failed"),
        (404, "Failed"),
    ] {
        let action = single(http_action(&target.url(&format!("/status/{code}"))));
        let item = run(&stage, &format!("j{code}"), action).await;
        assert_eq!(item["status"], expected, "{code}");
    }
    assert_eq!(target.seen().len(), 5, "nothing polls");
}

#[tokio::test]
async fn jobs_38_redirects_follow_their_rules() {
    let (stage, target, other) = (Stage::start().await, Target::start(), Target::start());
    stage.collection("Standard").await;
    let cases = [
        ("GET", "/redirect/302/end", true, "/end"),
        ("GET", "/redirect/301/redirect/303/end", true, "/end"),
        ("POST", "/redirect/302/end", false, "/redirect/302/end"),
        ("POST", "/redirect/307/end", true, "/end"),
        ("PUT", "/redirect/308/end", true, "/end"),
        ("GET", "/redirect/300/end", false, "/redirect/300/end"),
        (
            "GET",
            "/redirect/302/redirect/302/redirect/302/redirect/302/redirect/302/end",
            true,
            "/end",
        ),
        (
            "GET",
            "/redirect/302/redirect/302/redirect/302/redirect/302/redirect/302/redirect/302/end",
            false,
            "/redirect/302/end",
        ),
    ];
    for (number, (method, path, is_good, last)) in cases.into_iter().enumerate() {
        let action = with(http_action(&target.url(path)), |request| {
            request["method"] = method.into();
            if method != "GET" {
                request["body"] = "body".into();
            }
        });
        let item = run(&stage, &format!("j{number}"), single(action)).await;
        let expected = if is_good { "Completed" } else { "Failed" };
        assert_eq!(item["status"], expected, "{method} {path}: {item}");
        let seen = target.seen().pop().unwrap();
        assert_eq!(
            (seen.method.as_str(), seen.path.as_str()),
            (method, last),
            "{path}"
        );
        assert_eq!(seen.body, if method == "GET" { "" } else { "body" });
    }
    // Credentials stay with their origin.
    let path = format!("/redirect/307/{}/end", other.base);
    let action = with(http_action(&target.url(&path)), |request| {
        request["authentication"] = json!({"type": "Basic", "username": "u", "password": "p"});
    });
    run(&stage, "away", single(action)).await;
    assert!(
        target
            .seen()
            .pop()
            .unwrap()
            .headers
            .contains_key("authorization")
    );
    assert!(
        !other
            .seen()
            .pop()
            .unwrap()
            .headers
            .contains_key("authorization")
    );
}

#[tokio::test]
async fn jobs_39_every_attempt_says_what_it_is() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let mut action = with(http_action(&target.url("/status/500")), |request| {
        request["headers"] =
            json!({"x-own": "mine", "Idempotency-Key": "stolen", "x-ms-scheduler-jobid": "stolen"});
    });
    action["retryPolicy"] =
        json!({"retryType": "Fixed", "retryInterval": "PT0.1S", "retryCount": 2});
    stage.put("j", json!({"action": action})).await;
    let seen = target.wait(3).await;
    for (number, seen) in seen.iter().enumerate() {
        assert_eq!(seen.header("x-own"), "mine");
        assert_eq!(seen.header("x-ms-scheduler-jobid"), "j");
        assert_eq!(seen.header("x-ms-scheduler-jobcollectionid"), "jc");
        assert_eq!(seen.header("x-steadfast-attempt"), number.to_string());
        assert_eq!(seen.header("x-steadfast-action"), "main");
        assert!(!seen.header("x-steadfast-epoch").is_empty());
        assert!(!seen.header("x-ms-scheduler-execution-region").is_empty());
        assert_eq!(
            seen.header("x-ms-scheduler-expected-execution-time").len(),
            "2015-09-10T00:00:00".len()
        );
        assert!(seen.header("idempotency-key").starts_with("sub/rg/jc/j/20"));
        let tag = seen.header("x-ms-execution-tag");
        assert!(
            tag.len() == 32 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{tag}"
        );
    }
    let same = |name: &str| {
        seen.windows(2)
            .all(|pair| pair[0].header(name) == pair[1].header(name))
    };
    assert!(same("idempotency-key") && same("x-ms-execution-tag"));
    assert!(!same("x-ms-client-request-id"));
}

#[tokio::test]
async fn jobs_41_history_tells_of_answers_within_bounds() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let item = run(&stage, "big", single(http_action(&target.url("/big")))).await;
    let message = item["message"].as_str().unwrap();
    let (head, body) = message.split_once(" Body: ").unwrap();
    assert!(
        head.starts_with("Http Action - Response from host '127.0.0.1': 'OK' Response Headers: "),
        "{head}"
    );
    assert_eq!(body.len(), 2048);
    let item = run(
        &stage,
        "cookie",
        single(http_action(&target.url("/cookie"))),
    )
    .await;
    let message = item["message"].as_str().unwrap();
    assert!(
        message.contains("x-told: yes") && !message.contains("geheim"),
        "{message}"
    );
    // Newest first, by id as well; the cap is tested on a virtual clock.
    for _ in 0..3 {
        stage.put("many", json!({"startTime": "2100-01-01", "state": "Disabled", "action": http_action(&target.url("/"))})).await;
    }
    let properties = json!({"startTime": "2025-01-01", "recurrence": {"frequency": "month"}, "action": http_action(&target.url("/"))});
    stage.put("many", properties).await;
    for number in 1..=3 {
        stage
            .ask("POST", &format!("{}/run", job("many")), None)
            .await;
        stage.history_of("many", number).await;
    }
    let history = stage.history("many").await;
    let ids: Vec<_> = history
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_string())
        .collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let repeats: Vec<_> = history
        .iter()
        .map(|item| item["properties"]["repeatCount"].as_u64().unwrap())
        .collect();
    assert_eq!(repeats, [3, 2, 1]);
    let own = ids[0].rsplit_once('/').unwrap().1;
    assert_eq!(own.len(), 41);
    assert_eq!(history[0]["name"], format!("jc/many/{own}"));
}

#[tokio::test]
async fn credentials_in_an_address_are_sent() {
    let target = Target::start();
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let address = target.url("/own").replace("http://", "http://user:word@");
    run(&stage, "own", single(http_action(&address))).await;
    let expected = format!("Basic {}", STANDARD.encode("user:word"));
    assert_eq!(target.seen()[0].header("authorization"), expected);
}

#[tokio::test]
async fn basic_credentials_and_tokens_are_sent() {
    let (target, authority) = (Target::start(), Target::start());
    let base = authority.base.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.authority = base),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let basic = with(http_action(&target.url("/basic")), |request| {
        request["authentication"] =
            json!({"type": "Basic", "username": "user", "password": "päss"});
    });
    run(&stage, "basic", single(basic)).await;
    let expected = format!("Basic {}", STANDARD.encode("user:päss"));
    assert_eq!(target.seen()[0].header("authorization"), expected);
    let oauth = |path: &str| {
        with(http_action(&target.url(path)), |request| {
            request["authentication"] = json!({"type": "ActiveDirectoryOAuth", "tenant": "tenant",
                "audience": "https://target/", "clientId": "app", "secret": "s&s"});
        })
    };
    run(&stage, "one", single(oauth("/one"))).await;
    run(&stage, "two", single(oauth("/two"))).await;
    assert_eq!(authority.seen().len(), 1, "the token is kept");
    let asked = &authority.seen()[0];
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/tenant/oauth2/token")
    );
    assert!(
        asked.body.contains("grant_type=client_credentials")
            && asked.body.contains("client_secret=s%26s")
    );
    assert!(
        asked.body.contains("resource=https%3A%2F%2Ftarget%2F"),
        "{}",
        asked.body
    );
    assert_eq!(target.seen()[2].header("authorization"), "Bearer token-1");
    // A refused token is replaced once.
    run(&stage, "three", single(oauth("/status/401"))).await;
    let seen = target.seen();
    let tokens: Vec<_> = seen[3..]
        .iter()
        .map(|seen| seen.header("authorization").to_string())
        .collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-2"]);
}

#[tokio::test]
async fn our_own_port_and_metadata_are_not_called() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let own = run(&stage, "own", single(http_action(&stage.base))).await;
    assert!(
        own["message"]
            .as_str()
            .unwrap()
            .contains("this server itself"),
        "{own}"
    );
    let path = "/redirect/302/http://169.254.169.254/latest";
    let led = run(&stage, "led", single(http_action(&target.url(path)))).await;
    assert!(
        led["message"].as_str().unwrap().contains("not allowed"),
        "{led}"
    );
}

/// A certificate for 127.0.0.1 and its key, as files.
fn certificate(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (chain, key)
}

#[tokio::test]
async fn a_target_behind_tls_needs_a_root_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = certificate(folder.path());
    let tls = Certificate::load(&chain, &key).unwrap();
    let target = Target::start_with(Some(&tls));
    let action = || json!({"type": "Https", "request": {"uri": target.url("/x"), "method": "GET"}});
    let stage = Stage::start().await;
    stage.collection("Standard").await;
    let item = run(&stage, "j", single(action())).await;
    assert_eq!(item["status"], "Failed", "{item}");
    let roots = std::fs::read(&chain).unwrap();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.connect.roots = Some(roots)),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let item = run(&stage, "j", single(action())).await;
    assert_eq!(item["status"], "Completed", "{item}");
    // Never from https to http.
    let plain = Target::start();
    let path = format!("/redirect/302/{}/x", plain.base);
    let action = json!({"type": "Https", "request": {"uri": target.url(&path), "method": "GET"}});
    let item = run(&stage, "down", single(action)).await;
    assert!(
        item["message"]
            .as_str()
            .unwrap()
            .contains("from https to http"),
        "{item}"
    );
    assert_eq!(plain.seen().len(), 0);
}

#[tokio::test]
async fn a_service_bus_gets_a_signed_message() {
    let bus = Target::start();
    bus.answer_always(Some(201));
    let endpoint = bus.base.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| {
            options.endpoints.insert("ns".into(), endpoint);
        }),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let message = json!({
        "namespace": "ns", "queueName": "q", "message": "hällo",
        "authentication": {"type": "sharedAccessKey", "sasKeyName": "send", "sasKey": "key"},
        "brokeredMessageProperties": {"label": "l", "timeToLive": "PT90S", "contentType": "text/xml"},
        "customMessageProperties": {"Prio": "high"},
    });
    let action = json!({"type": "ServiceBusQueue", "serviceBusQueueMessage": message});
    let item = run(&stage, "j", single(action)).await;
    assert_eq!(item["status"], "Completed", "{item}");
    let seen = bus.seen().remove(0);
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str(), seen.body.as_str()),
        ("POST", "/q/messages", "hällo")
    );
    assert_eq!(
        (seen.header("prio"), seen.header("content-type")),
        ("\"high\"", "text/xml")
    );
    let properties: Value = serde_json::from_str(seen.header("brokerproperties")).unwrap();
    assert_eq!(
        (&properties["Label"], &properties["TimeToLive"]),
        (&json!("l"), &json!(90.0))
    );
    assert_eq!(properties["MessageId"].as_str().unwrap().len(), 32);
    let sas = Sas::parse(seen.header("authorization")).unwrap();
    assert!(sas.is_signed_by("key") && sas.covers(&format!("{}/q", bus.base)));
}

#[tokio::test]
async fn a_dead_letter_tells_of_the_last_attempt() {
    let (stage, target) = (Stage::start().await, Target::start());
    stage.collection("Standard").await;
    let mut properties = single(http_action(&target.url("/status/500")));
    properties["steadfast"] = json!({"deadLetter": target.url("/letters")});
    stage.put("j", properties).await;
    let seen = target.wait(2).await.remove(1);
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/letters")
    );
    let letter: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(letter["job"], "j");
    assert!(
        letter["message"]
            .as_str()
            .unwrap()
            .contains("Internal Server Error"),
        "{letter}"
    );
    assert_eq!(letter["idempotencyKey"], seen.header("idempotency-key"));
}

#[tokio::test]
async fn calls_go_through_the_proxy() {
    let proxy = Target::start();
    let address = proxy.base.clone();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.connect.proxy = Some(address)),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    // Only the proxy could know this name.
    let action = single(http_action("http://inside.invalid/x"));
    let item = run(&stage, "j", action).await;
    assert_eq!(item["status"], "Completed", "{item}");
    assert_eq!(proxy.seen()[0].header("host"), "inside.invalid");
    let bare = single(http_action("http://169.254.169.254/x"));
    assert_eq!(stage.put("bare", bare).await.status, 400);
}

/// A key and its certificate as a PKCS#12 file in base64, and the thumbprint.
fn pfx(password: &str) -> (String, String, rustls_pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["client".into()]).unwrap();
    let der = made.cert.der().clone();
    let key = p12_keystore::PrivateKey::from_der(&made.signing_key.serialize_der()).unwrap();
    let certificate = p12_keystore::Certificate::from_der(&der).unwrap();
    let chain = p12_keystore::PrivateKeyChain::new("id", key, [certificate]);
    let mut store = p12_keystore::KeyStore::new();
    store.add_entry(
        "client",
        p12_keystore::KeyStoreEntry::PrivateKeyChain(chain),
    );
    let file = store.writer(password).write().unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &der);
    let hex: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    (STANDARD.encode(file), hex, der)
}

/// A server that accepts clients with this certificate and answers 200.
async fn strict(
    folder: &std::path::Path,
    client: rustls_pki_types::CertificateDer<'static>,
) -> String {
    use rustls_pki_types::pem::PemObject;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (chain, key) = certificate(folder);
    let own = rustls_pki_types::CertificateDer::from_pem_file(chain).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::from_pem_file(key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(client).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder(std::sync::Arc::new(roots));
    let config = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![own], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    base
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_its_facts_are_told() {
    let _ = stage::client();
    let folder = tempfile::tempdir().unwrap();
    let (file, thumbprint, der) = pfx("pässword");
    let base = strict(folder.path(), der).await;
    let roots = std::fs::read(folder.path().join("chain.pem")).unwrap();
    let stage = Stage::with(Setup {
        outbound: Box::new(move |options| options.connect.roots = Some(roots)),
        ..Setup::default()
    })
    .await;
    stage.collection("Standard").await;
    let https = json!({"type": "Https", "request": {"uri": format!("{base}/x"), "method": "GET"}});
    let item = run(&stage, "without", single(https.clone())).await;
    assert_eq!(item["status"], "Failed", "{item}");
    let shown = with(https.clone(), |request| {
        request["authentication"] =
            json!({"type": "ClientCertificate", "pfx": file, "password": "pässword"});
    });
    let item = run(&stage, "with", single(shown)).await;
    assert_eq!(item["status"], "Completed", "{item}");
    let told = stage.get("with").await["properties"]["action"]["request"]["authentication"].clone();
    assert_eq!(told["certificateThumbprint"], thumbprint);
    assert!(
        told["certificateExpirationDate"]
            .as_str()
            .unwrap()
            .starts_with("4096-"),
        "{told}"
    );
    assert!(
        told["certificateSubjectName"].is_string()
            && told.get("pfx").is_none()
            && told.get("password").is_none()
    );
    let wrong = with(https, |request| {
        request["authentication"] =
            json!({"type": "ClientCertificate", "pfx": file, "password": "no"});
    });
    let refused = stage.put("wrong", single(wrong)).await;
    assert_eq!(
        refused.code(),
        (
            400,
            "BadRequest",
            "properties.action.request.authentication.pfx"
        )
    );
}
