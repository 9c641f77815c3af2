//! The operations of the REST API and their rights.

use axum::http::Method;
use steadfast_net::access::Right;

/// The versions of the API: dated ones, and the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVersion {
    Dated,
    First,
}

/// An operation of the REST API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HubRestOperation {
    SendToAll,
    SendToUser,
    SendToGroup,
    SendToConnection,
    CloseAll,
    CloseGroup,
    CloseUser,
    CloseConnection,
    FindConnection,
    FindUser,
    FindGroup,
    AddConnection,
    RemoveConnection,
    RemoveConnectionFromAll,
    RemoveUserFromAll,
    FindUserInGroup,
    AddUser,
    RemoveUser,
}

use ApiVersion::{Dated, First};
use HubRestOperation::*;

const BOTH: &[ApiVersion] = &[Dated, First];
const DATED: &[ApiVersion] = &[Dated];
const FIRST: &[ApiVersion] = &[First];

/// By versions, method and path below the name of a hub. Other operations are not
/// offered. The first version has user and group in the opposite order.
static OPERATIONS: [(&[ApiVersion], Method, &str, HubRestOperation); 30] = [
    (DATED, Method::POST, ":send", SendToAll),
    (DATED, Method::POST, "users/{user}/:send", SendToUser),
    (DATED, Method::POST, "groups/{group}/:send", SendToGroup),
    (
        DATED,
        Method::POST,
        "connections/{id}/:send",
        SendToConnection,
    ),
    (FIRST, Method::POST, "", SendToAll),
    (FIRST, Method::POST, "users/{user}", SendToUser),
    (FIRST, Method::POST, "groups/{group}", SendToGroup),
    (FIRST, Method::POST, "connections/{id}", SendToConnection),
    (DATED, Method::POST, ":closeConnections", CloseAll),
    (
        DATED,
        Method::POST,
        "groups/{group}/:closeConnections",
        CloseGroup,
    ),
    (
        DATED,
        Method::POST,
        "users/{user}/:closeConnections",
        CloseUser,
    ),
    (BOTH, Method::DELETE, "connections/{id}", CloseConnection),
    (BOTH, Method::GET, "connections/{id}", FindConnection),
    (BOTH, Method::HEAD, "connections/{id}", FindConnection),
    (BOTH, Method::GET, "users/{user}", FindUser),
    (BOTH, Method::HEAD, "users/{user}", FindUser),
    (BOTH, Method::GET, "groups/{group}", FindGroup),
    (BOTH, Method::HEAD, "groups/{group}", FindGroup),
    (
        BOTH,
        Method::PUT,
        "groups/{group}/connections/{id}",
        AddConnection,
    ),
    (
        BOTH,
        Method::DELETE,
        "groups/{group}/connections/{id}",
        RemoveConnection,
    ),
    (
        DATED,
        Method::DELETE,
        "connections/{id}/groups",
        RemoveConnectionFromAll,
    ),
    (
        BOTH,
        Method::DELETE,
        "users/{user}/groups",
        RemoveUserFromAll,
    ),
    (
        DATED,
        Method::GET,
        "users/{user}/groups/{group}",
        FindUserInGroup,
    ),
    (
        DATED,
        Method::HEAD,
        "users/{user}/groups/{group}",
        FindUserInGroup,
    ),
    (DATED, Method::PUT, "users/{user}/groups/{group}", AddUser),
    (
        DATED,
        Method::DELETE,
        "users/{user}/groups/{group}",
        RemoveUser,
    ),
    (
        FIRST,
        Method::GET,
        "groups/{group}/users/{user}",
        FindUserInGroup,
    ),
    (
        FIRST,
        Method::HEAD,
        "groups/{group}/users/{user}",
        FindUserInGroup,
    ),
    (FIRST, Method::PUT, "groups/{group}/users/{user}", AddUser),
    (
        FIRST,
        Method::DELETE,
        "groups/{group}/users/{user}",
        RemoveUser,
    ),
];

/// An operation with the names in its path.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedOperation<'a> {
    pub(super) operation: HubRestOperation,
    pub(super) user: &'a str,
    pub(super) group: Option<&'a str>,
    pub(super) connection: &'a str,
}

impl ApiVersion {
    /// The root path of its operations.
    pub(super) const fn root(self) -> &'static str {
        match self {
            Self::Dated => "/api/hubs/",
            Self::First => "/api/v1/hubs/",
        }
    }
}

impl HubRestOperation {
    /// The rights of which the caller needs one.
    pub(super) const fn rights(self) -> &'static [Right] {
        match self {
            FindConnection | FindUser | FindGroup | FindUserInGroup => &[Right::Send, Right::Read],
            SendToAll | SendToUser | SendToGroup | SendToConnection => &[Right::Send],
            CloseAll | CloseGroup | CloseUser | CloseConnection => &[Right::Send],
            AddConnection | RemoveConnection | RemoveConnectionFromAll => &[Right::Send],
            RemoveUserFromAll | AddUser | RemoveUser => &[Right::Send],
        }
    }
}

/// Every operation by method and full path, with the rights of which the caller needs
/// one.
pub fn sends() -> impl Iterator<Item = (Method, String, &'static [Right])> {
    OPERATIONS
        .iter()
        .flat_map(|(versions, method, path, operation)| {
            versions.iter().map(move |version| {
                let path = format!("{}{{hub}}/{path}", version.root());
                let path = path.trim_end_matches('/').to_owned();
                (method.clone(), path, operation.rights())
            })
        })
}

/// The operation that a version offers for a method at these segments below a hub.
pub(super) fn find<'a>(
    version: ApiVersion,
    method: &Method,
    segments: &[&'a str],
) -> Option<MatchedOperation<'a>> {
    let mut rows = OPERATIONS.iter();
    rows.find_map(|(versions, own, path, operation)| {
        let is_it = own == method && versions.contains(&version);
        is_it.then(|| named(*operation, path, segments))?
    })
}

/// Whether a version offers another method there.
pub(super) fn is_known(version: ApiVersion, segments: &[&str]) -> bool {
    let mut rows = OPERATIONS.iter();
    rows.any(|(versions, _, path, operation)| {
        versions.contains(&version) && named(*operation, path, segments).is_some()
    })
}

fn named<'a>(
    operation: HubRestOperation,
    path: &str,
    segments: &[&'a str],
) -> Option<MatchedOperation<'a>> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    if parts.clone().count() != segments.len() {
        return None;
    }
    let mut named = MatchedOperation {
        operation,
        user: "",
        group: None,
        connection: "",
    };
    for (part, &segment) in parts.zip(segments) {
        match part {
            "{user}" => named.user = segment,
            "{group}" => named.group = Some(segment),
            "{id}" => named.connection = segment,
            part if part == segment => {}
            _ => return None,
        }
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_what_it_names_and_by_nothing_else() {
        for (versions, method, path, operation) in &OPERATIONS {
            let filled = path.replace("{user}", "u").replace("{group}", "g");
            let filled = filled.replace("{id}", "c");
            let segments: Vec<_> = filled.split('/').filter(|own| !own.is_empty()).collect();
            for version in *versions {
                let found = find(*version, method, &segments).unwrap();
                assert_eq!(found.operation, *operation, "{method} {path}");
                assert_eq!(found.user == "u", path.contains("{user}"));
                assert_eq!(found.group.is_some(), path.contains("{group}"));
                assert_eq!(found.connection == "c", path.contains("{id}"));
                assert!(find(*version, &Method::PATCH, &segments).is_none());
                assert!(is_known(*version, &segments));
            }
        }
        assert!(find(Dated, &Method::POST, &["users", "u", "x", ":send"]).is_none());
        assert!(!is_known(First, &[":send"]));
    }
}
