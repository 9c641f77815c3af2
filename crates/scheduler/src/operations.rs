//! The table of operations and their rights.

use axum::http::Method;
use steadfast_net::access::Right;

use super::authorization::LOOK;
use super::path::ResourcePath;

const SEND: &[Right] = &[Right::Send];
const MANAGE: &[Right] = &[Right::Manage];

/// All operations, by method and path below `Microsoft.Scheduler`, with the rights of
/// which the caller needs one.
pub static OPERATIONS: [(Method, &str, &[Right]); 20] = [
    (Method::POST, "previewRecurrence", LOOK),
    (Method::GET, "jobCollections", LOOK),
    (Method::GET, "jobCollections/{name}", LOOK),
    (Method::PUT, "jobCollections/{name}", MANAGE),
    (Method::PATCH, "jobCollections/{name}", MANAGE),
    (Method::DELETE, "jobCollections/{name}", MANAGE),
    (Method::POST, "jobCollections/{name}/enable", MANAGE),
    (Method::POST, "jobCollections/{name}/disable", MANAGE),
    (Method::POST, "jobCollections/{name}/import", MANAGE),
    (Method::GET, "jobCollections/{name}/operations/{id}", LOOK),
    (Method::GET, "jobCollections/{name}/jobs", LOOK),
    (Method::GET, "jobCollections/{name}/jobs/{job}", LOOK),
    (Method::PUT, "jobCollections/{name}/jobs/{job}", MANAGE),
    (Method::PATCH, "jobCollections/{name}/jobs/{job}", MANAGE),
    (Method::DELETE, "jobCollections/{name}/jobs/{job}", MANAGE),
    (
        Method::GET,
        "jobCollections/{name}/jobs/{job}/history",
        LOOK,
    ),
    (Method::POST, "jobCollections/{name}/jobs/{job}/run", SEND),
    (
        Method::POST,
        "jobCollections/{name}/jobs/{job}/backfill",
        MANAGE,
    ),
    (
        Method::POST,
        "jobCollections/{name}/jobs/{job}/pause",
        MANAGE,
    ),
    (
        Method::POST,
        "jobCollections/{name}/jobs/{job}/resume",
        MANAGE,
    ),
];

/// The rights for an operation; `None` if it does not exist.
pub(super) fn rights(method: &Method, place: &ResourcePath) -> Option<&'static [Right]> {
    let path = described(place);
    let mut operations = OPERATIONS.iter();
    let found = operations.find(|(own, known, _)| own == method && *known == path);
    found.map(|(_, _, rights)| *rights)
}

fn described(place: &ResourcePath) -> String {
    let one = "jobCollections/{name}";
    match place {
        ResourcePath::Preview => "previewRecurrence".to_owned(),
        ResourcePath::Collections { .. } => "jobCollections".to_owned(),
        ResourcePath::Collection(_) => one.to_owned(),
        ResourcePath::CollectionVerb(_, verb) => format!("{one}/{verb}"),
        ResourcePath::Operation(..) => format!("{one}/operations/{{id}}"),
        ResourcePath::Jobs(_) => format!("{one}/jobs"),
        ResourcePath::Job(_) => format!("{one}/jobs/{{job}}"),
        ResourcePath::JobVerb(_, verb) => format!("{one}/jobs/{{job}}/{verb}"),
    }
}
