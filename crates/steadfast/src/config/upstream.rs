//! Declared upstreams as rules.
//!
//! Feature `signalr`.

use steadfast_signalr::UpstreamRule;

use super::declarations::DeclaredUpstream;

/// The rule of an upstream; a field that is not set matches everything.
pub(crate) fn rule(declared: &DeclaredUpstream) -> UpstreamRule {
    let or_all = |own: &Option<String>| own.clone().unwrap_or_else(|| "*".to_owned());
    UpstreamRule {
        url: declared.url.clone(),
        hub: or_all(&declared.hub),
        category: or_all(&declared.category),
        event: or_all(&declared.event),
    }
}

/// What is wrong with an upstream.
pub(super) fn check(declared: &DeclaredUpstream) -> Result<(), String> {
    rule(declared).check()
}
