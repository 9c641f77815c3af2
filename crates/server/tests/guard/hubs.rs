//! Who may do what with hubs: every route and operation.
//!
//! The routes come from the tables that the server itself is built of, as in
//! `guard_rights.rs`. A route that has no expectation here fails the test.

use reqwest::Method;
use serde_json::json;

use crate::rights::{
    Allowed, Forbidden, GRANTS, LATER, On, PAST, Route, Unauthenticated, agreed, client_token,
    filled, secret, serve, token, verdict,
};
use crate::running::Server;

/// Tries every proof and grant on a route of hubs, which takes web tokens only.
fn try_token(server: &Server, client_token: &str, route: &Route, is_client: bool) {
    let client = &server.client;
    let name = format!("{} {}", route.method, route.path);
    let ask = |header: Option<&str>| verdict(server, client, route, header);
    let audience = route.audience.as_deref().unwrap();
    let web = |audience: &str, exp: i64, key: &str| {
        let claims = json!({"aud": audience, "exp": exp});
        ask(Some(&format!("Bearer {}", token(&claims, &secret(key)))))
    };
    assert_eq!(ask(None), Unauthenticated, "{name}");
    assert_eq!(
        web(audience, LATER, "absent"),
        Unauthenticated,
        "{name}: wrong"
    );
    assert_eq!(
        web(audience, PAST, "root"),
        Unauthenticated,
        "{name}: expired"
    );
    for other in [
        "http://127.0.0.1/client/?hub=b",
        "https://durabletask.io",
        "http://elsewhere/",
    ] {
        assert_eq!(web(other, LATER, "root"), Forbidden, "{name}: {other}");
    }
    let expected = if is_client { Allowed } else { Forbidden };
    let hub = format!("Bearer {client_token}");
    assert_eq!(ask(Some(&hub)), expected, "{name}: token of a hub client");
    for key in ["none", "realtimeother"] {
        assert_eq!(web(audience, LATER, key), Forbidden, "{name}: {key}");
    }
    for grant in GRANTS {
        let key = format!("realtime{grant}");
        assert_eq!(
            web(audience, LATER, &key),
            route.expected(grant),
            "{name}: {grant}"
        );
    }
}

fn hub(method: Method, path: String, needs: Vec<&'static str>, audience: String) -> Route {
    Route {
        method,
        path,
        area: "realtime",
        on: On::Mine,
        needs: vec![needs],
        audience: Some(audience),
    }
}

#[test]
fn every_route_of_clients_and_app_servers_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    for path in steadfast_signalr::CLIENTS {
        let audience = "http://127.0.0.1/client/?hub=mine".to_owned();
        let method = if path.ends_with("negotiate") {
            Method::POST
        } else {
            Method::GET
        };
        let route = hub(method, format!("{path}?hub=mine"), vec!["listen"], audience);
        try_token(&server, &client_token, &route, true);
    }
    for path in steadfast_signalr::SERVERS {
        let audience = "http://127.0.0.1/server/?hub=mine".to_owned();
        let path = format!("{path}?hub=mine");
        let route = hub(Method::GET, path, vec!["send"], audience);
        try_token(&server, &client_token, &route, false);
    }
}

#[test]
fn every_send_by_http_asks_for_its_right() {
    let server = serve();
    let client_token = client_token(&server);
    let table: Vec<_> = steadfast_signalr::sends().collect();
    let own = table.iter();
    let own = own.map(|(method, path, rights)| (format!("{method} {path}"), *rights));
    let rows = agreed(
        "sends by HTTP",
        own,
        &[
            (
                "send",
                "POST /api/hubs/{hub}/:send, POST /api/hubs/{hub}/users/{user}/:send, \
                 POST /api/hubs/{hub}/groups/{group}/:send, \
                 POST /api/hubs/{hub}/connections/{id}/:send, \
                 POST /api/hubs/{hub}/:closeConnections, \
                 POST /api/hubs/{hub}/groups/{group}/:closeConnections, \
                 POST /api/hubs/{hub}/users/{user}/:closeConnections, \
                 DELETE /api/hubs/{hub}/connections/{id}, \
                 PUT /api/hubs/{hub}/groups/{group}/connections/{id}, \
                 DELETE /api/hubs/{hub}/groups/{group}/connections/{id}, \
                 DELETE /api/hubs/{hub}/connections/{id}/groups, \
                 DELETE /api/hubs/{hub}/users/{user}/groups, \
                 PUT /api/hubs/{hub}/users/{user}/groups/{group}, \
                 DELETE /api/hubs/{hub}/users/{user}/groups/{group}, \
                 POST /api/v1/hubs/{hub}, POST /api/v1/hubs/{hub}/users/{user}, \
                 POST /api/v1/hubs/{hub}/groups/{group}, \
                 POST /api/v1/hubs/{hub}/connections/{id}, \
                 DELETE /api/v1/hubs/{hub}/connections/{id}, \
                 PUT /api/v1/hubs/{hub}/groups/{group}/connections/{id}, \
                 DELETE /api/v1/hubs/{hub}/groups/{group}/connections/{id}, \
                 DELETE /api/v1/hubs/{hub}/users/{user}/groups, \
                 PUT /api/v1/hubs/{hub}/groups/{group}/users/{user}, \
                 DELETE /api/v1/hubs/{hub}/groups/{group}/users/{user}",
            ),
            (
                "send read",
                "GET /api/hubs/{hub}/connections/{id}, HEAD /api/hubs/{hub}/connections/{id}, \
                 GET /api/hubs/{hub}/users/{user}, HEAD /api/hubs/{hub}/users/{user}, \
                 GET /api/hubs/{hub}/groups/{group}, HEAD /api/hubs/{hub}/groups/{group}, \
                 GET /api/hubs/{hub}/users/{user}/groups/{group}, \
                 HEAD /api/hubs/{hub}/users/{user}/groups/{group}, \
                 GET /api/v1/hubs/{hub}/connections/{id}, \
                 HEAD /api/v1/hubs/{hub}/connections/{id}, \
                 GET /api/v1/hubs/{hub}/users/{user}, HEAD /api/v1/hubs/{hub}/users/{user}, \
                 GET /api/v1/hubs/{hub}/groups/{group}, \
                 HEAD /api/v1/hubs/{hub}/groups/{group}, \
                 GET /api/v1/hubs/{hub}/groups/{group}/users/{user}, \
                 HEAD /api/v1/hubs/{hub}/groups/{group}/users/{user}",
            ),
        ],
    );
    for (name, needs) in rows {
        let (method, path) = name.split_once(' ').unwrap();
        let path = filled(path);
        let audience = format!("http://127.0.0.1{path}");
        let route = hub(method.parse().unwrap(), path, needs, audience);
        try_token(&server, &client_token, &route, false);
    }
    // What no table has is not offered, to a client that may send.
    for path in steadfast_signalr::SENDS {
        let path = path.replace("{*rest}", "mine/rooms/mine");
        let claims = json!({"aud": format!("http://127.0.0.1{path}"), "exp": LATER});
        let bearer = format!("Bearer {}", token(&claims, &secret("realtimesend")));
        let (status, _) = server.ask(Method::POST, &path, &bearer, None);
        assert_eq!(status, 404, "{path}");
    }
}
