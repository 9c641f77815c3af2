//! Blob names of the SDKs' checkpoint stores.

/// The event hub of an ownership or checkpoint blob, by the blob's name.
pub fn event_hub_of(name: &str) -> Option<&str> {
    CheckpointBlobName::of(name).map(|mark| mark.hub)
}

/// The parsed name of an ownership or checkpoint blob.
pub(super) struct CheckpointBlobName<'a> {
    pub(super) namespace: &'a str,
    pub(super) hub: &'a str,
    pub(super) group: &'a str,
    pub(super) partition: u32,
    pub(super) is_ownership: bool,
}

impl<'a> CheckpointBlobName<'a> {
    /// Reads `namespace/hub/group/ownership/partition`, or `checkpoint` in its place.
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let mut parts = name.rsplitn(5, '/');
        let partition = parts.next()?.parse().ok()?;
        let what = parts.next()?;
        let is_ownership = what.eq_ignore_ascii_case("ownership");
        if !is_ownership && !what.eq_ignore_ascii_case("checkpoint") {
            return None;
        }
        let (group, hub) = (parts.next()?, parts.next()?);
        let namespace = parts.next()?;
        Some(Self {
            namespace,
            hub,
            group,
            partition,
            is_ownership,
        })
    }
}
