//! Upstreams of a program that calls none.

use super::declarations::DeclaredUpstream;

/// Nothing to check: the configuration is refused for having an upstream at all.
pub(super) fn check(_: &DeclaredUpstream) -> Result<(), String> {
    Ok(())
}
