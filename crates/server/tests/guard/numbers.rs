//! Numbers at and beyond the ends of their range.
//!
//! Every number that a client may write is tried with the ends of all integer types,
//! and with what is no integer. The server answers by the protocol's own error, or as
//! if the number were the largest that means anything; it never panics.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use steadfast_client::amqp::{AmqpClient as Amqp, ReaderLinkOptions};
use steadfast_wire::amqp::performative::Performative;
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::session::{Begin, Flow};
use steadfast_wire::jwt;
use tokio::net::TcpStream;

use crate::running::{KNOWN, PATIENCE, Server, Start};

/// The key of hubs that `steadfast dev` knows.
const HUB_KEY: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// What is written where a number is expected, as text in an address or as JSON.
const NUMBERS: [&str; 16] = [
    "-9223372036854775808",
    "-9223372036854775807",
    "-9007199254740993",
    "-2147483648",
    "-1",
    "0",
    "2147483647",
    "4294967295",
    "9007199254740992",
    "9223372036854775",
    "9223372036854775806",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999",
    "1e308",
    "NaN",
];

/// The same as JSON; what JSON cannot say is a text.
fn numbers() -> impl Iterator<Item = Value> {
    NUMBERS.into_iter().map(|text| {
        let number = serde_json::from_str(text);
        number.unwrap_or_else(|_| Value::String(text.to_owned()))
    })
}

/// Asks by REST, whatever the answer is, as long as there is one. The server answers a
/// panic with no answer, or with 500.
fn ask(server: &Server, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let method: Method = method.parse().unwrap();
    let what = format!("{path} {body:?}");
    let (status, answer) = server.ask(method, path, &format!("Bearer {KNOWN}"), body);
    assert_ne!(status.as_u16(), 500, "{what}: {answer}");
    (status.as_u16(), answer)
}

/// No thread and no task has panicked, and the server answers.
fn is_well(server: &Server) {
    let log = server.log();
    let panic = log.lines().find(|line| line.contains("panicked"));
    assert_eq!(panic, None, "{log}");
    assert_eq!(server.get("/readyz").0, 200);
}

/// A JSON document with each of the numbers at a place.
fn each(document: &Value, pointer: &str) -> Vec<Value> {
    let with = |number: Value| {
        let mut changed = document.clone();
        *changed.pointer_mut(pointer).unwrap() = number;
        changed
    };
    numbers().map(with).collect()
}

#[test]
fn a_time_without_end_in_a_group_is_refused_and_no_panic() {
    let server = Start::new("dev").ready();
    let path = "/api/hubs/chat/users/ada/groups/g";
    let claims = json!({"aud": format!("http://localhost{path}"), "exp": 9_999_999_999_u64});
    let token = jwt::token(claims.as_object().unwrap(), HUB_KEY);
    let put = |ttl: &str| {
        let url = format!("{}{path}?ttl={ttl}", server.url);
        let request = server.client.put(url).bearer_auth(&token);
        server.block(async { request.send().await.unwrap().status().as_u16() })
    };
    assert_eq!(put("9223372036854775807"), 400);
    assert_eq!(put("2147483647"), 200);
    for number in NUMBERS {
        assert!([200, 400].contains(&put(number)), "{number}");
    }
    is_well(&server);
}

/// A field of a protobuf message: a number, or bytes.
fn number_field(tag: u8, value: i64) -> Vec<u8> {
    let mut out = vec![tag << 3];
    let mut left = value.cast_unsigned();
    while left >= 0x80 {
        out.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
    out
}

fn bytes_field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

/// The status of a gRPC call.
fn call(server: &Server, client: &Client, port: u16, method: &str, message: &[u8]) -> String {
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend_from_slice(message);
    let request = client
        .post(format!(
            "http://127.0.0.1:{port}/TaskHubSidecarService/{method}"
        ))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .bearer_auth(KNOWN)
        .body(body);
    server.block(async {
        let answer = request.send().await.expect(method);
        let status = answer.headers().get("grpc-status").cloned();
        // Without a status in the head it follows the body, and is no refusal.
        let status = status.map_or("0".to_owned(), |own| own.to_str().unwrap().to_owned());
        answer.bytes().await.expect(method);
        status
    })
}

#[test]
fn spans_and_times_without_end_are_no_panic_of_grpc() {
    let server = Start::new("dev").ready();
    let client = Client::builder()
        .http2_prior_knowledge()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let port = server.port_of("durable");
    let filter = |seconds, nanos| {
        let span = [number_field(1, seconds), number_field(2, nanos)].concat();
        bytes_field(2, &bytes_field(4, &span))
    };
    let purge = |message: &[u8]| call(&server, &client, port, "PurgeInstances", message);
    assert_eq!(purge(&filter(i64::MAX, 0)), "3", "invalid argument");
    assert_eq!(purge(&filter(315_576_000_000, 0)), "0");
    let ends = [i64::MIN, -1, 0, 1 << 53, i64::MAX - 1, i64::MAX];
    for (seconds, nanos) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
        purge(&filter(seconds, nanos));
        let time = [number_field(1, seconds), number_field(2, nanos)].concat();
        for tag in [1, 2] {
            purge(&bytes_field(2, &bytes_field(tag, &time)));
            let query = bytes_field(tag, &time);
            call(
                &server,
                &client,
                port,
                "QueryEntities",
                &bytes_field(1, &query),
            );
        }
        for tag in [2, 3] {
            let query = bytes_field(1, &bytes_field(tag, &time));
            call(&server, &client, port, "QueryInstances", &query);
            call(
                &server,
                &client,
                port,
                "ListInstanceIds",
                &bytes_field(tag, &time),
            );
        }
        let start = [
            bytes_field(1, format!("i-{seconds}-{nanos}").as_bytes()),
            bytes_field(2, b"o"),
            bytes_field(5, &time),
        ];
        call(&server, &client, port, "StartInstance", &start.concat());
        let signal = [
            bytes_field(1, b"@counter@a"),
            bytes_field(2, b"add"),
            bytes_field(5, &time),
        ];
        call(&server, &client, port, "SignalEntity", &signal.concat());
    }
    for number in ends {
        let most = bytes_field(1, &number_field(5, number));
        call(&server, &client, port, "QueryInstances", &most);
        call(
            &server,
            &client,
            port,
            "ListInstanceIds",
            &number_field(4, number),
        );
        let page = bytes_field(1, &bytes_field(6, &number_field(1, number)));
        call(&server, &client, port, "QueryEntities", &page);
    }
    is_well(&server);
}

#[test]
fn numbers_of_our_own_rest_are_bounded() {
    let server = Start::new("dev").ready();
    let mut made = 0;
    let hub = json!({"name": "h", "partitions": 1, "retention_s": 1, "retention_bytes": 1});
    ask(&server, "POST", "/v1/eventhubs", Some(hub.clone()));
    for pointer in ["/partitions", "/retention_s", "/retention_bytes"] {
        for mut body in each(&hub, pointer) {
            made += 1;
            body["name"] = json!(format!("h{made}"));
            ask(&server, "POST", "/v1/eventhubs", Some(body));
        }
    }
    for pointer in ["/retention_s", "/retention_bytes"] {
        let body = json!({"retention_s": 1, "retention_bytes": 1});
        for body in each(&body, pointer) {
            let (status, _) = ask(&server, "PATCH", "/v1/eventhubs/h", Some(body));
            assert!([200, 400, 422].contains(&status), "{status}");
            let events = json!({"events": [{"body": "x"}], "partition": 0});
            ask(&server, "POST", "/v1/eventhubs/h/events", Some(events));
        }
    }
    let events = json!({"events": [{"body": "x"}], "partition": 0});
    for body in each(&events, "/partition") {
        ask(&server, "POST", "/v1/eventhubs/h/events", Some(body));
    }
    let reset = json!({"partition": 0, "sequence": 0});
    for pointer in ["/partition", "/sequence"] {
        for body in each(&reset, pointer) {
            let path = "/v1/eventhubs/h/groups/$Default/reset";
            ask(&server, "POST", path, Some(body));
        }
    }
    for number in NUMBERS {
        for query in [
            format!("partition={number}"),
            format!("partition=0&from_sequence={number}"),
            format!("partition=0&limit={number}"),
            format!("partition=0&from=end&wait_s={number}"),
        ] {
            ask(
                &server,
                "GET",
                &format!("/v1/eventhubs/h/events?{query}"),
                None,
            );
        }
    }
    collections(&server);
    let token = json!({"user": "ada", "lifetime_s": 60});
    for body in each(&token, "/lifetime_s") {
        ask(&server, "POST", "/v1/hubs/chat/token", Some(body));
    }
    let look = json!({"what": "entries", "limit": 1});
    for body in each(&look, "/limit") {
        ask(&server, "POST", "/v1/inspect", Some(body));
    }
    // The numbers that the server takes would end it.
    for body in each(&json!({"limit_s": 0}), "/limit_s") {
        if body["limit_s"].as_u64().is_none_or(|limit| limit > 1 << 31) {
            ask(&server, "POST", "/v1/drain", Some(body));
        }
    }
    is_well(&server);
}

/// Schemes, ranges and pages of collections.
fn collections(server: &Server) {
    let mut made = 0;
    let scheme = json!({"scheme": {"range": {"low": 0, "high": 10, "count": 2}}});
    let ends = ["/scheme/range/low", "/scheme/range/high"];
    let mut schemes: Vec<_> = ends.iter().flat_map(|end| each(&scheme, end)).collect();
    schemes.extend(each(&scheme, "/scheme/range/count"));
    let mut whole = scheme.clone();
    whole["scheme"]["range"] = json!({"low": i64::MIN, "high": i64::MAX, "count": 3});
    schemes.push(whole.clone());
    schemes.extend(each(&whole, "/scheme/range/low"));
    for body in schemes {
        made += 1;
        let service = format!("/v1/state/s{made}");
        ask(server, "PUT", &service, Some(body));
        for slot in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
            let path = format!("{service}/c/k?slot={slot}");
            ask(server, "PUT", &path, Some(json!("v")));
            ask(server, "GET", &path, None);
        }
    }
    for number in NUMBERS {
        let path = format!("/v1/state/s1/c?limit={number}&slot=0");
        ask(server, "GET", &path, None);
    }
}

const COLLECTION: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/\
                          jobCollections/c";

#[test]
fn numbers_of_the_scheduler_are_bounded() {
    let server = Start::new("dev").ready();
    let version = "api-version=2016-03-01";
    let collection = json!({"location": "West US", "properties": {
        "sku": {"name": "Standard"},
        "quota": {"maxJobCount": 5, "maxRecurrence": {"frequency": "Minute", "interval": 1}},
    }});
    let path = format!("{COLLECTION}?{version}");
    ask(&server, "PUT", &path, Some(collection.clone()));
    for pointer in ["maxJobCount", "maxRecurrence/interval"] {
        for body in each(&collection, &format!("/properties/quota/{pointer}")) {
            ask(&server, "PUT", &path, Some(body));
        }
    }
    ask(&server, "PUT", &path, Some(collection));
    let job = json!({"properties": {
        "state": "Disabled",
        "startTime": "2020-01-01T00:00:00Z",
        "action": {
            "type": "Http",
            "request": {"uri": "http://127.0.0.1:9/", "method": "GET"},
            "retryPolicy": {"retryType": "Fixed", "retryInterval": "PT30S", "retryCount": 1},
        },
        "recurrence": {"frequency": "Month", "interval": 1, "count": 2, "schedule": {
            "hours": [1], "minutes": [1], "monthDays": [1],
        }},
        "steadfast": {"jitter": "PT1S"},
    }});
    let at = format!("{COLLECTION}/jobs/j?{version}");
    let (status, made) = ask(&server, "PUT", &at, Some(job.clone()));
    assert!([200, 201].contains(&status), "{made}");
    for pointer in [
        "action/retryPolicy/retryCount",
        "action/retryPolicy/retryInterval",
        "recurrence/interval",
        "recurrence/count",
        "recurrence/schedule/hours/0",
        "recurrence/schedule/minutes/0",
        "recurrence/schedule/monthDays/0",
        "steadfast/jitter",
        "startTime",
    ] {
        for body in each(&job, &format!("/properties/{pointer}")) {
            ask(&server, "PUT", &at, Some(body.clone()));
            ask(&server, "PATCH", &at, Some(body));
        }
    }
    let times = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999-15:00"];
    for time in times.map(Value::from) {
        let mut body = job.clone();
        body["properties"]["startTime"] = time.clone();
        ask(&server, "PUT", &at, Some(body.clone()));
        body["properties"]["recurrence"]["endTime"] = time;
        ask(&server, "PUT", &at, Some(body));
    }
    for span in [
        "P999999999Y",
        "P999999999D",
        "PT999999999H",
        "999999999.23:59:59",
    ] {
        for pointer in ["action/retryPolicy/retryInterval", "steadfast/jitter"] {
            let mut body = job.clone();
            *body.pointer_mut(&format!("/properties/{pointer}")).unwrap() = json!(span);
            ask(&server, "PUT", &at, Some(body));
        }
    }
    for number in NUMBERS {
        for query in [format!("$top={number}"), format!("$skip={number}")] {
            for rest in ["jobs", "jobs/j/history"] {
                let path = format!("{COLLECTION}/{rest}?{version}&{query}");
                ask(&server, "GET", &path, None);
            }
        }
    }
    is_well(&server);
}

#[test]
fn numbers_of_the_durable_rest_are_bounded() {
    let server = Start::new("dev").ready();
    let base = "/runtime/webhooks/durabletask";
    ask(
        &server,
        "POST",
        &format!("{base}/orchestrators/o/i"),
        Some(json!(1)),
    );
    for number in NUMBERS.into_iter().chain(["inf", "-0.0", "1e-320"]) {
        ask(
            &server,
            "GET",
            &format!("{base}/instances?top={number}"),
            None,
        );
        ask(
            &server,
            "GET",
            &format!("{base}/entities?top={number}"),
            None,
        );
        // Those that are right would wait.
        if !["0", "-0.0", "1e-320"].contains(&number) {
            let path = format!("{base}/orchestrators/o?timeout={number}");
            ask(&server, "POST", &path, Some(json!(1)));
        }
    }
    is_well(&server);
}

#[test]
fn numbers_of_amqp_are_bounded() {
    let server = Start::new("dev").ready();
    let hub = json!({"name": "h", "partitions": 1});
    ask(&server, "POST", "/v1/eventhubs", Some(hub));
    let port = server.port_of("amqp");
    let response = format!("\0RootManageSharedAccessKey\0{KNOWN}");
    let starts = ["offset", "sequence-number", "enqueued-time"];
    let starts = starts.iter().flat_map(|kind| {
        let one = move |number: &str| format!("amqp.annotation.x-opt-{kind} > '{number}'");
        NUMBERS.into_iter().flat_map(move |number| {
            let text = one(number);
            [text.replace('>', ">="), text]
        })
    });
    let starts: Vec<_> = starts.collect();
    server.block(async {
        let ends = [0, 1, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX - 1, u32::MAX];
        for (index, one) in ends.into_iter().enumerate() {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let init = sasl::SaslInit {
                mechanism: "PLAIN",
                response: response.as_bytes(),
            };
            let mut peer = Amqp::connect(stream, &init).await.unwrap();
            let begin = Begin {
                remote_channel: None,
                next_outgoing: one,
                incoming_window: one,
                outgoing_window: one,
                handle_max: Some(one),
            };
            peer.put(0, &Performative::Begin(begin), &[]);
            let address = "h/ConsumerGroups/$Default/Partitions/0";
            for (handle, start) in starts.iter().enumerate().skip(index * 16).take(16) {
                let reading = ReaderLinkOptions {
                    start: Some(start),
                    epoch: Some(i64::from(one) << 31),
                    desired: None,
                };
                let handle = u32::try_from(handle % 16).unwrap();
                peer.attach_reader(0, handle, &format!("r{handle}"), address, &reading);
            }
            for two in ends {
                for handle in [Some(0), Some(two), None] {
                    let flow = Flow {
                        next_incoming: Some(two),
                        incoming_window: one,
                        next_outgoing: two,
                        outgoing_window: one,
                        handle,
                        delivery_count: handle.map(|_| one),
                        credit: handle.map(|_| two),
                        available: handle.map(|_| one),
                        drain: false,
                        echo: true,
                    };
                    peer.put(0, &Performative::Flow(flow), &[]);
                }
            }
            // It may have hung up by now: what came is no less a whole answer.
            let _ = peer.send_all().await;
            let answers = async { while peer.next().await.is_ok() {} };
            let _ = tokio::time::timeout(Duration::from_millis(500), answers).await;
        }
    });
    is_well(&server);
}
