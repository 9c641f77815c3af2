//! Keys for every area and grant, and what they are to open.
#![allow(dead_code, reason = "each test uses a part of it")]

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
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
        let has = |need: &Vec<&str>| grant == "manage" || need.contains(&grant);
        match self.needs.iter().all(has) {
            true => Allowed,
            false => Forbidden,
        }
    }

    pub(crate) fn expected_of_other(&self) -> Verdict {
        match self.on {
            On::Anything => Allowed,
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
