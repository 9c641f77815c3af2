//! Resource paths, matched without regard to case.
//!
//! Each segment is decoded separately, so `j%2F%C3%BC` is one name.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use steadfast_jobs::{CollectionId, JobId};

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourcePath {
    /// All collections of a subscription, or of one of its groups.
    Collections {
        subscription: String,
        group: Option<String>,
    },
    Collection(CollectionId),
    /// An action on a collection.
    CollectionVerb(CollectionId, String),
    Jobs(CollectionId),
    Job(JobId),
    /// An action on a job, or its history.
    JobVerb(JobId, String),
    /// The status of a sweep.
    Operation(CollectionId, u64),
    Preview,
}

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

impl ResourcePath {
    /// Parses a path; `None` if it names no resource.
    pub(crate) fn read(path: &str) -> Option<Self> {
        let decode = |part: &str| {
            percent_decode_str(part)
                .decode_utf8()
                .ok()
                .map(String::from)
        };
        let parts: Option<Vec<_>> = path.trim_matches('/').split('/').map(decode).collect();
        let parts = parts?;
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let (subscription, rest) = match parts.as_slice() {
            [word, subscription, rest @ ..] if is(word, "subscriptions") => (*subscription, rest),
            _ => return None,
        };
        let (group, rest) = match rest {
            [word, group, rest @ ..] if is(word, "resourceGroups") => (Some(*group), rest),
            rest => (None, rest),
        };
        let rest = match rest {
            [word, name, rest @ ..] if is(word, "providers") && is(name, "Microsoft.Scheduler") => {
                rest
            }
            _ => return None,
        };
        match (group, rest) {
            (None, [word]) if is(word, "previewRecurrence") => Some(Self::Preview),
            (_, [word]) if is(word, "jobCollections") => Some(Self::Collections {
                subscription: subscription.into(),
                group: group.map(Into::into),
            }),
            (Some(group), [word, name, rest @ ..]) if is(word, "jobCollections") => {
                Self::below(CollectionId::new(subscription, group, name)?, rest)
            }
            _ => None,
        }
    }

    /// The collection that is named, or that contains the named job.
    pub(crate) fn collection(&self) -> Option<&CollectionId> {
        match self {
            Self::Collections { .. } | Self::Preview => None,
            Self::Collection(id)
            | Self::CollectionVerb(id, _)
            | Self::Jobs(id)
            | Self::Operation(id, _) => Some(id),
            Self::Job(id) | Self::JobVerb(id, _) => Some(&id.collection),
        }
    }

    fn below(id: CollectionId, rest: &[&str]) -> Option<Self> {
        match rest {
            [] => Some(Self::Collection(id)),
            [word] if is(word, "jobs") => Some(Self::Jobs(id)),
            [verb] => Some(Self::CollectionVerb(id, verb.to_lowercase())),
            [word, number] if is(word, "operations") => {
                Some(Self::Operation(id, number.parse().ok()?))
            }
            [word, job] if is(word, "jobs") => Some(Self::Job(id.job(job)?)),
            [word, job, verb] if is(word, "jobs") => {
                Some(Self::JobVerb(id.job(job)?, verb.to_lowercase()))
            }
            _ => None,
        }
    }
}

fn is(part: &str, word: &str) -> bool {
    part.eq_ignore_ascii_case(word)
}

/// The id of a collection; `/` in a name is not encoded in ids.
pub(crate) fn collection_id(id: &CollectionId) -> String {
    format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Scheduler/jobCollections/{}",
        id.subscription, id.group, id.name
    )
}

/// The id of a job.
pub(crate) fn job_id(id: &JobId) -> String {
    format!("{}/jobs/{}", collection_id(&id.collection), id.name)
}

/// The path of a collection in a URL.
pub(crate) fn collection_url(id: &CollectionId) -> String {
    let encoded = CollectionId {
        subscription: encode(&id.subscription),
        group: encode(&id.group),
        name: encode(&id.name),
    };
    collection_id(&encoded)
}

/// Encodes a text for a URL.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_any_case_and_segments_one_by_one() {
        let path = "/SUBSCRIPTIONS/S/resourcegroups/Rg/PROVIDERS/microsoft.scheduler/JobCollections/Jc/JOBS/j%2F%C3%BC/History";
        let id = CollectionId::new("S", "Rg", "Jc")
            .unwrap()
            .job("j/ü")
            .unwrap();
        assert_eq!(
            ResourcePath::read(path),
            Some(ResourcePath::JobVerb(id, "history".into()))
        );
        let all = "/subscriptions/s/providers/Microsoft.Scheduler/jobCollections";
        let place = ResourcePath::Collections {
            subscription: "s".into(),
            group: None,
        };
        assert_eq!(ResourcePath::read(all), Some(place));
        for bad in [
            "/",
            "/subscriptions",
            "/subscriptions/s/providers/Microsoft.Web/sites",
            "/subscriptions/%FF/providers/Microsoft.Scheduler/jobCollections",
        ] {
            assert_eq!(ResourcePath::read(bad), None, "{bad}");
        }
    }
}
