//! The supported operations.

use axum::http::Method;

use super::error::BlobError;
use super::request::BlobRequest;

/// A supported operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobOperation {
    CreateContainer,
    ReadContainer,
    DeleteContainer,
    List,
    Put,
    Describe,
    Read,
    Head,
    Delete,
    PutBlock,
    PutBlocks,
    ReadBlocks,
    Lease,
}

/// Unsupported headers that would change the meaning of a request.
const NOT_OFFERED: [&str; 12] = [
    "x-ms-copy-source",
    "x-ms-encryption-key",
    "x-ms-encryption-scope",
    "x-ms-immutability-policy-until-date",
    "x-ms-legal-hold",
    "x-ms-tags",
    "x-ms-if-tags",
    "x-ms-structured-body",
    "x-ms-content-crc64",
    "x-ms-range-get-content-crc64",
    "x-ms-source-if-match",
    "x-ms-blob-public-access",
];

impl BlobOperation {
    pub(super) fn of(ask: &BlobRequest) -> Result<Self, BlobError> {
        if let Some(header) = NOT_OFFERED.iter().find(|name| ask.header(name).is_some()) {
            return Err(BlobError::not_offered(&format!("the header '{header}'")));
        }
        for parameter in ["snapshot", "versionid"] {
            if ask
                .parameter(parameter)
                .is_some_and(|value| !value.is_empty())
            {
                let what = format!("the parameter '{parameter}'");
                return Err(BlobError::not_offered(&what));
            }
        }
        let word = |name: &str| ask.parameter(name).map(str::to_ascii_lowercase);
        let (restype, comp) = (word("restype"), word("comp"));
        let comp = comp.as_deref();
        let is_container = restype.as_deref() == Some("container");
        let operation = match (&ask.place.container, &ask.place.blob) {
            (Some(_), None) if is_container => of_container(&ask.method, comp),
            (Some(_), Some(_)) if restype.is_none() => of_blob(&ask.method, comp),
            _ => None,
        };
        let operation = operation.ok_or_else(|| {
            let (method, comp) = (&ask.method, comp.unwrap_or("nothing"));
            BlobError::not_offered(&format!("{method} with comp {comp}"))
        })?;
        if is_container && ask.header("x-ms-lease-id").is_some() {
            Err(BlobError::no_lease())
        } else {
            Ok(operation)
        }
    }
}

fn of_container(method: &Method, comp: Option<&str>) -> Option<BlobOperation> {
    Some(match (method, comp) {
        (&Method::PUT, None) => BlobOperation::CreateContainer,
        (&Method::GET | &Method::HEAD, None | Some("metadata")) => BlobOperation::ReadContainer,
        (&Method::DELETE, None) => BlobOperation::DeleteContainer,
        (&Method::GET, Some("list")) => BlobOperation::List,
        _ => return None,
    })
}

fn of_blob(method: &Method, comp: Option<&str>) -> Option<BlobOperation> {
    Some(match (method, comp) {
        (&Method::PUT, None) => BlobOperation::Put,
        (&Method::PUT, Some("metadata")) => BlobOperation::Describe,
        (&Method::GET, None) => BlobOperation::Read,
        (&Method::HEAD, None | Some("metadata")) => BlobOperation::Head,
        (&Method::DELETE, None) => BlobOperation::Delete,
        (&Method::PUT, Some("block")) => BlobOperation::PutBlock,
        (&Method::PUT, Some("blocklist")) => BlobOperation::PutBlocks,
        (&Method::GET, Some("blocklist")) => BlobOperation::ReadBlocks,
        (&Method::PUT, Some("lease")) => BlobOperation::Lease,
        _ => return None,
    })
}
