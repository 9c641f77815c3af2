//! Who may do what: every route with every proof and grant.
//!
//! Routes of hubs are in `hubs.rs`, links in `links.rs`.
//!
//! The routes come from the tables that the server itself is built of. A route that
//! has no expectation here fails the test.

use std::collections::BTreeSet;

use reqwest::{Client, Method};
use serde_json::json;
use steadfast_eventhubs::publish;
use steadfast_wire::sas;

use crate::rights::{
    Allowed, Forbidden, GRANTS, LATER, On, PAST, Route, Unauthenticated, agreed, client_token,
    filled, secret, serve, token, verdict,
};
use crate::running::Server;

/// Tries every proof and grant on a route that takes keys in a header, and web tokens
/// if it names their audience.
fn try_header(server: &Server, client: &Client, client_token: &str, route: &Route) {
    let ask = |header: Option<&str>| verdict(server, client, route, header);
    let name = format!("{} {}", route.method, route.path);
    let manager = secret(&format!("{}manage", route.area));
    let resource = format!("{}{}", server.url, route.path);
    let signed =
        |expiry, key: &str| sas::token(&resource, expiry, &format!("{}manage", route.area), key);
    assert_eq!(ask(None), Unauthenticated, "{name}");
    for (what, wrong) in [
        ("secret", "Bearer wrong".to_owned()),
        ("signature", signed(LATER, "wrong")),
        ("expired", signed(PAST, &manager)),
    ] {
        assert_eq!(ask(Some(&wrong)), Unauthenticated, "{name}: {what}");
    }
    let web = |audience: &str, exp: i64| {
        let claims = json!({"aud": audience, "exp": exp});
        format!("Bearer {}", token(&claims, &manager))
    };
    let own = route.audience.as_deref();
    let (stray, good) = match own {
        Some(_) => (Forbidden, Allowed),
        None => (Unauthenticated, Unauthenticated),
    };
    let hub = format!("Bearer {client_token}");
    assert_eq!(ask(Some(&hub)), stray, "{name}: token of a hub client");
    let other = web("http://127.0.0.1/client/?hub=mine", LATER);
    assert_eq!(ask(Some(&other)), stray, "{name}: other audience");
    let audience = own.unwrap_or("https://eventhubs.azure.net");
    assert_eq!(
        ask(Some(&web(audience, PAST))),
        Unauthenticated,
        "{name}: expired token"
    );
    assert_eq!(ask(Some(&web(audience, LATER))), good, "{name}: web token");
    let by = |key: &str| ask(Some(&format!("Bearer {}", secret(key))));
    let without = match route.on {
        On::AnyKey => Allowed,
        On::Mine | On::Whole | On::Anything => Forbidden,
    };
    assert_eq!(by("none"), without, "{name}: no grant");
    let other = format!("{}other", route.area);
    assert_eq!(
        by(&other),
        route.expected_of_other(),
        "{name}: other entity"
    );
    for grant in GRANTS {
        let key = format!("{}{grant}", route.area);
        if route.on == On::Whole && route.area != "node" {
            assert_eq!(by(&key), Forbidden, "{name}: {grant} on one entity");
            let whole = by(&format!("{key}all"));
            assert_eq!(whole, route.expected(grant), "{name}: {grant} on all");
            continue;
        }
        assert_eq!(by(&key), route.expected(grant), "{name}: {grant}");
    }
}

/// What every operation of the REST interface is expected to need.
const REST: [(&str, &str, &str); 62] = [
    ("get /v1/status", "node", "read"),
    ("post /v1/drain", "node", "manage"),
    ("post /v1/reload", "node", "manage"),
    ("get /v1/audit", "node", "read"),
    ("get /v1/logs", "node", "read"),
    ("get /v1/keys", "node", "read"),
    ("get /v1/keys/{name}", "node", "read"),
    ("post /v1/keys", "node", "manage"),
    ("post /v1/keys/{name}/rotate", "node", "manage"),
    ("delete /v1/keys/{name}", "node", "manage"),
    ("post /v1/backup", "node", "manage"),
    ("post /v1/restore", "node", "manage"),
    ("post /v1/inspect", "node", "manage"),
    ("post /v1/cluster/scrub", "node", "manage"),
    ("get /v1/time", "node", "read"),
    ("post /v1/time/advance", "node", "manage"),
    ("get /v1/cluster", "node", "read"),
    ("post /v1/cluster/move", "node", "manage"),
    ("get /v1/region", "node", "read"),
    ("post /v1/region/failover", "node", "manage"),
    ("post /v1/region/failback", "node", "manage"),
    ("get /v1/state", "state", "listen read"),
    (
        "get /v1/state/{service}/{collection}/queue/peek",
        "state",
        "listen read",
    ),
    ("get /v1/state/{service}", "state", "listen read"),
    ("put /v1/state/{service}", "state", "manage"),
    ("post /v1/state/{service}", "state", "send listen read"),
    // Its steps and effects are checked one by one: `access.rs`.
    ("post /v1/transactions", "state", "send listen read"),
    (
        "get /v1/state/{service}/{collection}",
        "state",
        "listen read",
    ),
    (
        "get /v1/state/{service}/{collection}/{key}",
        "state",
        "listen read",
    ),
    (
        "put /v1/state/{service}/{collection}/{key}",
        "state",
        "send",
    ),
    (
        "delete /v1/state/{service}/{collection}/{key}",
        "state",
        "send",
    ),
    ("get /v1/eventhubs", "events", "listen read"),
    ("post /v1/eventhubs", "events", "manage"),
    ("get /v1/eventhubs/{hub}", "events", "listen read"),
    ("patch /v1/eventhubs/{hub}", "events", "manage"),
    ("delete /v1/eventhubs/{hub}", "events", "manage"),
    ("post /v1/eventhubs/{hub}/events", "events", "send"),
    ("get /v1/eventhubs/{hub}/events", "events", "listen read"),
    ("get /v1/eventhubs/{hub}/groups", "events", "listen read"),
    (
        "get /v1/eventhubs/{hub}/groups/{group}",
        "events",
        "listen read",
    ),
    ("put /v1/eventhubs/{hub}/groups/{group}", "events", "manage"),
    (
        "delete /v1/eventhubs/{hub}/groups/{group}",
        "events",
        "manage",
    ),
    (
        "post /v1/eventhubs/{hub}/groups/{group}/reset",
        "events",
        "manage",
    ),
    (
        "get /v1/eventhubs/{hub}/groups/{group}/parked",
        "events",
        "listen read",
    ),
    (
        "post /v1/eventhubs/{hub}/groups/{group}/parked/replay",
        "events",
        "manage",
    ),
    (
        "put /v1/eventhubs/{hub}/policies/{policy}",
        "events",
        "manage",
    ),
    (
        "delete /v1/eventhubs/{hub}/policies/{policy}",
        "events",
        "manage",
    ),
    ("get /v1/blobs", "events", "listen read"),
    ("get /v1/blobs/{container}", "events", "listen read"),
    ("put /v1/blobs/{container}", "events", "manage"),
    ("delete /v1/blobs/{container}", "events", "manage"),
    ("post /v1/blobs/{container}/delete", "events", "manage"),
    ("get /v1/taskhubs", "durable", "listen read"),
    ("get /v1/taskhubs/{name}", "durable", "listen read"),
    ("get /v1/taskhubs/{name}/workers", "durable", "listen read"),
    ("get /v1/hubs", "realtime", "read"),
    ("get /v1/hubs/{hub}/clients", "realtime", "read"),
    ("get /v1/hubs/{hub}/clients/{id}", "realtime", "read"),
    ("delete /v1/hubs/{hub}/clients/{id}", "realtime", "manage"),
    ("get /v1/hubs/{hub}/servers", "realtime", "read"),
    (
        "post /v1/hubs/{hub}/servers/{server}/drain",
        "realtime",
        "manage",
    ),
    ("post /v1/hubs/{hub}/tokens", "realtime", "manage"),
];

/// Answers every key, whatever its rights: who it is.
const REST_ANY_KEY: (&str, &str, &str) = ("get /v1/me", "node", "");

/// Calls methods of clients, which is a send.
const REST_SEND: (&str, &str, &str) = ("post /v1/hubs/{hub}/send", "realtime", "send");

#[test]
fn every_operation_of_the_rest_interface_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    let (_, document) = server.ask(Method::GET, "/openapi.json", "", None);
    let mut offered = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            let is_open = described["security"].as_array().is_some_and(Vec::is_empty);
            let open = [
                "/",
                "/livez",
                "/readyz",
                "/healthz",
                "/metrics",
                "/openapi.json",
            ];
            assert!(!is_open || open.contains(&path.as_str()), "{path} is open");
            if !is_open {
                offered.insert(format!("{method} {path}"));
            }
        }
    }
    let rows: Vec<_> = REST.iter().chain([&REST_SEND, &REST_ANY_KEY]).collect();
    let known: BTreeSet<_> = rows.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(
        offered, known,
        "every operation has a row here, and every row one"
    );
    for (name, area, needs) in rows {
        let (method, path) = name.split_once(' ').unwrap();
        let route = Route {
            method: method.to_uppercase().parse().unwrap(),
            path: filled(path),
            area,
            on: match (*area, path.contains('{')) {
                _ if needs.is_empty() => On::AnyKey,
                ("node", _) => On::Whole,
                // Their accounts are no event hubs.
                _ if path.starts_with("/v1/blobs") => On::Whole,
                (_, true) => On::Mine,
                (_, false) => On::Anything,
            },
            needs: vec![needs.split(' ').collect()],
            audience: None,
        };
        try_header(&server, &server.client, &client_token, &route);
    }
}

#[test]
fn every_method_and_route_of_durable_task_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    let audience = Some("https://durabletask.io".to_owned());
    let methods = steadfast_durabletask::METHODS.iter();
    let methods = methods.map(|(name, rights)| ((*name).to_owned(), *rights));
    let methods = agreed(
        "gRPC",
        methods,
        &[
            (
                "listen read",
                "Hello, GetInstance, WaitForInstanceStart, WaitForInstanceCompletion, \
                 QueryInstances, ListInstanceIds, StreamInstanceHistory, GetEntity, \
                 QueryEntities",
            ),
            (
                "listen",
                "GetWorkItems, CompleteOrchestratorTask, CompleteActivityTask, \
                 CompleteEntityTask, CompleteTasks, AbandonTaskOrchestratorWorkItem, \
                 AbandonTaskActivityWorkItem, AbandonTaskEntityWorkItem",
            ),
            (
                "send",
                "StartInstance, RaiseEvent, SignalEntity, CallEntity",
            ),
            (
                "manage",
                "TerminateInstance, SuspendInstance, ResumeInstance, RewindInstance, \
                 RestartInstance, PurgeInstances, CleanEntityStorage, CreateTaskHub, \
                 DeleteTaskHub, SkipGracefulOrchestrationTerminations",
            ),
        ],
    );
    let grpc = Client::builder().http2_prior_knowledge().build().unwrap();
    for (method, needs) in methods {
        let route = Route {
            method: Method::POST,
            path: format!("/TaskHubSidecarService/{method}"),
            area: "durable",
            on: On::Mine,
            needs: vec![needs],
            audience: audience.clone(),
        };
        try_header(&server, &grpc, &client_token, &route);
    }
    let routes = steadfast_durabletask::rest::ROUTES.iter();
    let routes = routes.map(|(method, path, rights)| (format!("{method} {path}"), *rights));
    let routes = agreed(
        "HTTP",
        routes,
        &[
            (
                "listen read",
                "GET instances, GET instances/{id}, GET instances/{id}/why, GET locks, \
                 GET entities, GET entities/{name}, GET entities/{name}/{key}",
            ),
            (
                "send",
                "POST orchestrators/{name}, POST orchestrators/{name}/{id}, POST \
                 instances/{id}/raiseEvent/{event}, POST entities/{name}/{key}, DELETE \
                 entities/{name}/{key}, POST entities/{name}/{key}/call",
            ),
            (
                "manage",
                "DELETE instances, DELETE instances/{id}, POST \
                 instances/{id}/terminate, POST instances/{id}/suspend, POST \
                 instances/{id}/resume, POST instances/{id}/rewind, POST \
                 instances/{id}/restart, DELETE locks/{name}/{key}",
            ),
        ],
    );
    for (name, needs) in routes {
        let (method, path) = name.split_once(' ').unwrap();
        let base = steadfast_durabletask::rest::BASE;
        // No worker answers a call, so none is waited for.
        let route = Route {
            method: method.parse().unwrap(),
            path: format!("{base}/{}?taskHub=mine&timeout=0", filled(path)),
            area: "durable",
            on: On::Mine,
            needs: vec![needs],
            audience: audience.clone(),
        };
        try_header(&server, &server.client, &client_token, &route);
    }
}

#[test]
fn every_operation_on_jobs_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    let operations = steadfast_scheduler::OPERATIONS.iter();
    let operations = operations.map(|(method, path, rights)| (format!("{method} {path}"), *rights));
    let operations = agreed(
        "Scheduler",
        operations,
        &[
            (
                "listen read",
                "POST previewRecurrence, GET jobCollections, GET jobCollections/{name}, \
                 GET jobCollections/{name}/operations/{id}, GET \
                 jobCollections/{name}/jobs, GET jobCollections/{name}/jobs/{job}, GET \
                 jobCollections/{name}/jobs/{job}/history",
            ),
            ("send", "POST jobCollections/{name}/jobs/{job}/run"),
            (
                "manage",
                "PUT jobCollections/{name}, PATCH jobCollections/{name}, DELETE \
                 jobCollections/{name}, POST jobCollections/{name}/enable, POST \
                 jobCollections/{name}/disable, POST jobCollections/{name}/import, PUT \
                 jobCollections/{name}/jobs/{job}, PATCH \
                 jobCollections/{name}/jobs/{job}, DELETE \
                 jobCollections/{name}/jobs/{job}, POST \
                 jobCollections/{name}/jobs/{job}/backfill, POST \
                 jobCollections/{name}/jobs/{job}/pause, POST \
                 jobCollections/{name}/jobs/{job}/resume",
            ),
        ],
    );
    for (name, needs) in operations {
        let (method, path) = name.split_once(' ').unwrap();
        let has_group = path.contains('{');
        let group = if has_group {
            "/resourceGroups/default"
        } else {
            ""
        };
        let path = filled(&path.replace("{id}", "1"));
        let route = Route {
            method: method.parse().unwrap(),
            path: format!(
                "/subscriptions/main{group}/providers/Microsoft.Scheduler/{path}\
                 ?api-version=2016-03-01"
            ),
            area: "jobs",
            on: if has_group { On::Mine } else { On::Anything },
            needs: vec![needs],
            audience: Some("https://management.azure.com".to_owned()),
        };
        try_header(&server, &server.client, &client_token, &route);
    }
}

#[test]
fn every_route_of_publishing_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    for path in publish::ROUTES {
        let path = path.replace("{partition}", "0");
        let route = Route {
            method: Method::POST,
            path: filled(&path),
            area: "events",
            on: On::Mine,
            needs: vec![vec!["send"]],
            audience: None,
        };
        try_header(&server, &server.client, &client_token, &route);
    }
}
