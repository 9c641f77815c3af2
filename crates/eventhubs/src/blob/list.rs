//! Lists the blobs of a container.

use axum::http::header::HOST;
use axum::response::{IntoResponse, Response};
use steadfast_core::clock::Timestamp;
use steadfast_events::Blob;
use steadfast_wire::blob::xml::{BlobItem, BlobListing, ListBlobsRequest};

use super::context::Context;
use super::error::BlobError;
use super::header_values;
use super::property::{self, DIGEST, PROPERTIES, property};
use super::request::BlobRequest;

/// The most blobs of one response.
const MOST: usize = 5000;

/// A response that reaches this size ends with a continuation marker.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

pub(super) async fn list(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let text = |name: &str| ask.parameter(name).unwrap_or("");
    let most = match text("maxresults") {
        "" => MOST,
        number => match number.parse::<usize>() {
            Ok(most) if most > 0 => most.min(MOST),
            _ => {
                let words = "maxresults is a number from 1 on";
                return Err(BlobError::bad("OutOfRangeQueryParameterValue", words));
            }
        },
    };
    let (prefix, marker) = (text("prefix"), text("marker"));
    let mut included = text("include").split(',');
    let has_metadata = included.any(|part| part.trim().eq_ignore_ascii_case("metadata"));
    let container = ask.container();
    let delimiter = text("delimiter");
    let names = (prefix, delimiter);
    let page = context.blobs.list_by(&container, names, marker, most);
    let page = page.await?;
    let scheme = if context.is_encrypted || ask.is_proxied_encrypted {
        "https"
    } else {
        "http"
    };
    let host = ask.header(HOST.as_str()).unwrap_or("localhost");
    let mut listing = BlobListing::new(&ListBlobsRequest {
        endpoint: &format!("{scheme}://{host}/{}/", ask.place.account),
        container: ask.place.container.as_deref().unwrap_or(""),
        prefix,
        marker,
        delimiter,
        most,
    });
    let now = context.clock.now();
    let mut next = page.next.unwrap_or_default();
    let blobs = page
        .blobs
        .iter()
        .map(|blob| (blob.name.as_str(), Some(blob)));
    let prefixes = page.prefixes.iter().map(|name| (name.as_str(), None));
    let mut entries: Vec<_> = blobs.chain(prefixes).collect();
    entries.sort_by_key(|(name, _)| *name);
    for (name, blob) in entries {
        if listing.bytes() > ANSWER_BYTES {
            name.clone_into(&mut next);
            break;
        }
        let Some(blob) = blob else {
            listing.push_prefix(name);
            continue;
        };
        listing.push(&BlobItem {
            name,
            properties: &properties(blob, now),
            metadata: has_metadata.then_some(&blob.metadata),
        });
    }
    let headers = [("content-type", "application/xml")];
    Ok((headers, listing.end(&next)).into_response())
}

fn properties(blob: &Blob, now: Timestamp) -> Vec<(&'static str, String)> {
    let (status, state, duration) = property::lease(blob, now);
    let mut properties = vec![
        ("Creation-Time", header_values::date(blob.created)),
        ("Last-Modified", header_values::date(blob.modified)),
        ("Etag", header_values::tag(blob.version)),
        ("Content-Length", blob.length.to_string()),
        ("Content-Type", blob.content_type.clone()),
    ];
    let own = PROPERTIES.iter();
    properties.extend(own.map(|(name, element, _)| (*element, property(blob, name).to_owned())));
    properties.extend([
        ("Content-MD5", property(blob, DIGEST).to_owned()),
        ("BlobType", "BlockBlob".to_owned()),
        ("LeaseStatus", status.to_owned()),
        ("LeaseState", state.to_owned()),
        ("ServerEncrypted", "false".to_owned()),
    ]);
    properties.extend(duration.map(|kind| ("LeaseDuration", kind.to_owned())));
    properties
}
