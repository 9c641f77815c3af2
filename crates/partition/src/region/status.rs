//! The status of a region pair, for operators.

/// The status of a pair, as one of its regions sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStatus {
    /// The region that reports it, the other one, and the one that should own the
    /// space.
    pub region: String,
    pub pair: String,
    pub home: String,
    /// The owner of the space, as far as this region knows.
    pub owner: String,
    pub epoch: u64,
    /// Whether this region is the owner, right now.
    pub is_owner: bool,
    /// `synced` or `degraded` at the owner, `following` or `catching-up` elsewhere.
    pub mode: &'static str,
    /// The age of the oldest change that only the owner has.
    pub lag_ms: u64,
    /// Whether the other region and the witness answered their last request.
    pub reaches_pair: bool,
    pub reaches_witness: bool,
    pub has_witness: bool,
    /// How often this region has become the owner since it started.
    pub takeovers: u64,
    /// Entries that were refused because this region was not the owner.
    pub fenced: u64,
}
