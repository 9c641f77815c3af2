//! Keys for every area and grant, and what they are to open.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use steadfast_net::access::Right;
use steadfast_wire::jwt;

use crate::running::{Server, Start};

pub(crate) const LATER: i64 = 4_000_000_000;
pub(crate) const PAST: i64 = 1_000_000_000;
pub(crate) const AREAS: [&str; 6] = ["events", "durable", "jobs", "realtime", "state", "node"];
pub(crate) const GRANTS: [&str; 4] = ["read", "send", "listen", "manage"];

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unauthenticated,
    Forbidden,
    Allowed,
}

pub(crate) use Verdict::{Allowed, Forbidden, Unauthenticated};

/// On what a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The entity `mine`.
    Mine,
    Whole,
    Anything,
    /// No right is needed.
    AnyKey,
}

/// A route, and what it is expected to need: one right of each list.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) area: &'static str,
    pub(crate) on: On,
    pub(crate) needs: Vec<Vec<&'static str>>,
    /// The audience of web tokens, where they count.
    pub(crate) audience: Option<String>,
}

impl Route {
    pub(crate) fn expected(&self, grant: &str) -> Verdict {
        let is_any = self.on == On::AnyKey;
        let has = |need: &Vec<&str>| is_any || grant == "manage" || need.contains(&grant);
        if self.needs.iter().all(has) {
            Allowed
        } else {
            Forbidden
        }
    }

    pub(crate) fn expected_of_other(&self) -> Verdict {
        match self.on {
            On::Anything | On::AnyKey => Allowed,
            On::Mine | On::Whole => Forbidden,
        }
    }
}

/// A secret: long enough, and base64, as accounts of blobs need it.
pub(crate) fn secret(name: &str) -> String {
    format!("{name:0<28}")
}

/// A server with keys for every area and grant.
pub(crate) fn serve() -> Server {
    let mut keys = vec![
        ("root".to_owned(), "manage *".to_owned()),
        ("none".to_owned(), "manage node/nothing".to_owned()),
    ];
    for area in AREAS {
        let mine = match area {
            "node" => area.to_owned(),
            area => format!("{area}/mine"),
        };
        for grant in GRANTS {
            keys.push((format!("{area}{grant}"), format!("{grant} {mine}")));
            keys.push((format!("{area}{grant}all"), format!("{grant} {area}")));
        }
        keys.push((format!("{area}other"), format!("manage {area}/other")));
    }
    let mut text = String::new();
    for (name, right) in keys {
        let secret = secret(&name);
        text += &format!("[[key]]\nname = '{name}'\nprimary = '{secret}'\nrights = ['{right}']\n");
    }
    Start::new("serve").config(&text).ready()
}

pub(crate) fn token(claims: &Value, secret: &str) -> String {
    jwt::token(claims.as_object().unwrap(), secret)
}

/// A token for clients of the hub `mine`, made by the server.
pub(crate) fn client_token(server: &Server) -> String {
    let root = format!("Bearer {}", secret("root"));
    let (status, made) = server.ask(
        Method::POST,
        "/v1/hubs/mine/tokens",
        &root,
        Some(json!({"user": "alice"})),
    );
    assert_eq!(status, StatusCode::OK, "{made}");
    made["token"].as_str().unwrap().to_owned()
}

/// A path whose parameters are all `mine`.
pub(crate) fn filled(path: &str) -> String {
    let part = |part: &str| {
        if part.starts_with('{') {
            "mine".to_owned()
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<_> = path.split('/').map(part).collect();
    parts.join("/")
}

/// Asks over HTTP, or gRPC if the client speaks HTTP/2 only.
pub(crate) fn verdict(
    server: &Server,
    client: &Client,
    route: &Route,
    header: Option<&str>,
) -> Verdict {
    let url = format!("{}{}", server.url, route.path);
    let mut request = client.request(route.method.clone(), url);
    if route.path.starts_with("/TaskHub") {
        request = request
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("taskhub", "mine");
    }
    if let Some(header) = header {
        request = request.header("authorization", header);
    }
    let answer = server.block(async { request.send().await.unwrap() });
    let code = answer.headers().get("grpc-status");
    let code = code.and_then(|code| code.to_str().ok()).map(str::to_owned);
    let status = answer.status();
    if route.path.ends_with("/messages") && status == StatusCode::UNAUTHORIZED {
        // Publishing knows this status only; its code tells what is wrong.
        let said = server.block(async { answer.text().await.unwrap() });
        return if said.contains("STF-6005") {
            Forbidden
        } else {
            Unauthenticated
        };
    }
    match (status, code.as_deref()) {
        (StatusCode::UNAUTHORIZED, _) | (_, Some("16")) => Unauthenticated,
        (StatusCode::FORBIDDEN, _) | (_, Some("7")) => Forbidden,
        _ => Allowed,
    }
}

/// Compares a table of the server with what is expected, and answers the rights of a
/// row.
pub(crate) fn agreed<'a>(
    what: &str,
    table: impl Iterator<Item = (String, &'a [Right])>,
    expected: &[(&'static str, &'static str)],
) -> Vec<(String, Vec<&'static str>)> {
    let mut rights = BTreeMap::new();
    for (group, names) in expected {
        for name in names.split(", ") {
            assert!(
                rights.insert(name, *group).is_none(),
                "{what}: {name} twice"
            );
        }
    }
    let mut rows = Vec::new();
    for (name, own) in table {
        let needs = rights.remove(name.as_str());
        let needs: Vec<_> = needs
            .unwrap_or_else(|| panic!("{what}: {name} has no row"))
            .split(' ')
            .collect();
        let own: BTreeSet<_> = own.iter().map(ToString::to_string).collect();
        let wanted: BTreeSet<_> = needs.iter().map(ToString::to_string).collect();
        assert_eq!(own, wanted, "{what}: {name}");
        rows.push((name, needs));
    }
    assert!(rights.is_empty(), "{what} does not offer {rights:?}");
    rows
}
