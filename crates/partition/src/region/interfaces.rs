//! Interfaces that a region pair needs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_storage_replicated::mirror::{
    BEGINNING, CopyRequest, CopyResponse, CopyStep, PeerRegion,
};

use super::messages::{RegionAction, RegionRequest};

/// The receiver of a region's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionPeer {
    Pair,
    Witness,
}

/// The transport between regions.
#[async_trait]
pub trait RegionTransport: Send + Sync + 'static {
    /// Sends a request and returns the answer; `None` if the outcome is unknown.
    async fn send(&self, to: RegionPeer, word: &RegionRequest, limit: Duration) -> Option<Bytes>;
}

/// The region's work outside of its partitions.
#[async_trait]
pub trait ExternalWork: Send + Sync + 'static {
    /// Starts no more work, and waits until none is in progress, or for the limit;
    /// answers how much is still in progress.
    async fn pause(&self, limit: Duration) -> usize;

    /// Resumes after a pause, including work that was not started.
    fn resume(&self);

    /// Starts no more work, and drops work that was not started.
    fn stop(&self);

    /// Starts, without work from before.
    fn start(&self);
}

/// Sends the copying steps of a space to the other region.
pub struct CopyTransport {
    pub transport: Arc<dyn RegionTransport>,
    pub space: String,
}

/// How long a small step of copying may take before it is sent again.
const STEP: Duration = Duration::from_secs(1);

/// How many bytes a slow connection carries in a millisecond.
const BYTES_PER_MS: usize = 1000;

#[async_trait]
impl PeerRegion for CopyTransport {
    async fn copy(&self, copy: &CopyRequest) -> Option<CopyResponse> {
        let limit = match &copy.step {
            CopyStep::Begin => BEGINNING,
            CopyStep::Changes(parts) => {
                let bytes: usize = parts.iter().map(|part| part.1.len()).sum();
                STEP + Duration::from_millis((bytes / BYTES_PER_MS) as u64)
            }
            CopyStep::Whole => STEP,
        };
        let word = RegionRequest {
            space: self.space.clone(),
            action: RegionAction::Copy(copy.clone()),
        };
        let reply = self.transport.send(RegionPeer::Pair, &word, limit).await?;
        CopyResponse::decode(reply).ok()
    }
}
