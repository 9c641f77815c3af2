//! Maps errors to the Blob service's codes, in one table.
//!
//! The header and the XML body carry the same code: clients read either. The message
//! begins with the STF code.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use steadfast_events::{Error, ErrorKind, LeaseAction};
use steadfast_net::access::{AccessError, AccessErrorKind};
use steadfast_wire::blob::xml;

/// The request is malformed.
const MALFORMED: &str = "STF-6045";
/// The operation is not supported.
const NOT_OFFERED: &str = "STF-6046";

/// A status, the Blob service's error code and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlobError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl BlobError {
    fn new(status: StatusCode, code: &'static str, own: &str, words: &str) -> Self {
        Self {
            status,
            code,
            message: format!("{own}: {words}"),
        }
    }

    /// A malformed request with an error code of its own.
    pub(super) fn bad(code: &'static str, words: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, MALFORMED, words)
    }

    /// A header has an invalid value.
    pub(super) fn header(name: &str) -> Self {
        let words = format!("the header '{name}' cannot have this value");
        Self::bad("InvalidHeaderValue", &words)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let words = format!("a body has {limit} bytes at most; send less");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "RequestBodyTooLarge", MALFORMED, &words)
    }

    pub(super) fn too_slow() -> Self {
        let words = "the body did not come in time";
        let status = StatusCode::REQUEST_TIMEOUT;
        Self::new(status, "OperationTimedOut", MALFORMED, words)
    }

    /// The store was throttled for too long.
    pub(super) fn busy() -> Self {
        let words = "the server could not store the body in time; send it again";
        Error::new(ErrorKind::Unavailable, words).into()
    }

    /// The range begins after the end of the blob.
    pub(super) fn range() -> Self {
        let words = "the range begins behind the end of the blob";
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        Self::new(status, "InvalidRange", MALFORMED, words)
    }

    /// Not modified, by the condition of a read.
    pub(super) fn unchanged() -> Self {
        let words = "the blob was not modified";
        let own = ErrorKind::ConditionFailed.code();
        Self::new(StatusCode::NOT_MODIFIED, "ConditionNotMet", own.0, words)
    }

    /// Containers have no leases.
    pub(super) fn no_lease() -> Self {
        let words = "containers have no leases here; lease a blob";
        let status = StatusCode::PRECONDITION_FAILED;
        let code = "LeaseNotPresentWithContainerOperation";
        Self::new(status, code, NOT_OFFERED, words)
    }

    /// The error of a lease operation.
    pub(super) fn of_lease(error: Error, action: LeaseAction) -> Self {
        let code = match (error.kind(), action) {
            (ErrorKind::LeaseHeld, _) => "LeaseAlreadyPresent",
            (ErrorKind::LeaseMismatch, _) => "LeaseIdMismatchWithLeaseOperation",
            (ErrorKind::LeaseNotPresent, _) => "LeaseNotPresentWithLeaseOperation",
            (ErrorKind::LeaseBroken, LeaseAction::Acquire { .. }) => {
                "LeaseIsBreakingAndCannotBeAcquired"
            }
            (ErrorKind::LeaseBroken, LeaseAction::Change { .. }) => {
                "LeaseIsBreakingAndCannotBeChanged"
            }
            (ErrorKind::LeaseBroken, _) => "LeaseIsBrokenAndCannotBeRenewed",
            _ => return error.into(),
        };
        Self::new(StatusCode::CONFLICT, code, error.code().0, error.message())
    }

    /// The operation is not supported.
    pub(super) fn not_offered(what: &str) -> Self {
        let words = format!("{what} is not offered here; block blobs, metadata and lists are");
        let status = StatusCode::NOT_IMPLEMENTED;
        Self::new(status, "NotImplemented", NOT_OFFERED, &words)
    }
}

impl From<AccessError> for BlobError {
    fn from(denied: AccessError) -> Self {
        let code = match denied.reason {
            AccessErrorKind::Forbidden => "AuthorizationPermissionMismatch",
            _ => "AuthenticationFailed",
        };
        let (own, words) = (denied.code(), denied.message());
        Self::new(StatusCode::FORBIDDEN, code, own.0, words)
    }
}

impl From<Error> for BlobError {
    fn from(error: Error) -> Self {
        let (status, code) = match error.kind() {
            ErrorKind::ContainerNotFound => (StatusCode::NOT_FOUND, "ContainerNotFound"),
            ErrorKind::ContainerExists => (StatusCode::CONFLICT, "ContainerAlreadyExists"),
            ErrorKind::BlobNotFound => (StatusCode::NOT_FOUND, "BlobNotFound"),
            ErrorKind::BlobExists => (StatusCode::CONFLICT, "BlobAlreadyExists"),
            ErrorKind::ConditionFailed => (StatusCode::PRECONDITION_FAILED, "ConditionNotMet"),
            ErrorKind::BadBlob => (StatusCode::BAD_REQUEST, "InvalidInput"),
            ErrorKind::AccountFull => (StatusCode::CONFLICT, "AccountCapacityExceedsLimit"),
            ErrorKind::BadBlockList => (StatusCode::BAD_REQUEST, "InvalidBlockList"),
            ErrorKind::LeaseHeld => (StatusCode::PRECONDITION_FAILED, "LeaseIdMissing"),
            ErrorKind::LeaseBroken => (StatusCode::PRECONDITION_FAILED, "LeaseLost"),
            ErrorKind::LeaseMismatch => (
                StatusCode::PRECONDITION_FAILED,
                "LeaseIdMismatchWithBlobOperation",
            ),
            ErrorKind::LeaseNotPresent => (
                StatusCode::PRECONDITION_FAILED,
                "LeaseNotPresentWithBlobOperation",
            ),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        };
        Self::new(status, code, error.code().0, error.message())
    }
}

impl BlobError {
    /// The response to a HEAD request: status and code without a body.
    pub(super) fn into_head(self) -> Response {
        (self.status, [("x-ms-error-code", self.code)]).into_response()
    }
}

impl IntoResponse for BlobError {
    fn into_response(self) -> Response {
        if self.status == StatusCode::NOT_MODIFIED {
            return self.into_head();
        }
        let headers = [
            ("x-ms-error-code", self.code),
            ("content-type", "application/xml"),
        ];
        let body = xml::error(self.code, &self.message);
        (self.status, headers, body).into_response()
    }
}
