//! What a pair needs of the world around it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_storage::mirror::{BEGINNING, Copy, Pair, Reply, Step};

use super::word::{Wish, Word};

/// Whom a region talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Pair,
    Witness,
}

/// How regions reach one another.
#[async_trait]
pub trait Ways: Send + Sync + 'static {
    /// Brings a word there and the answer back; `None` if that is not certain.
    async fn send(&self, to: To, word: &Word, limit: Duration) -> Option<Bytes>;
}

/// What the region does outside.
#[async_trait]
pub trait Hands: Send + Sync + 'static {
    /// Begins nothing any more, and waits until nothing is under way, or the limit;
    /// answers how much is still under way.
    async fn rest(&self, limit: Duration) -> usize;

    /// Goes on after that, also with what was not begun.
    fn resume(&self);

    /// Begins nothing any more, and forgets what was not begun.
    fn stop(&self);

    /// Begins to work, with nothing left over.
    fn work(&self);
}

/// Copies of a space go to the other region as words.
pub struct CopyWay {
    pub ways: Arc<dyn Ways>,
    pub space: String,
}

/// How long a small step of copying may take before it is sent again.
const STEP: Duration = Duration::from_secs(1);

/// How many bytes a slow line carries in a millisecond.
const BYTES_PER_MS: usize = 1000;

#[async_trait]
impl Pair for CopyWay {
    async fn copy(&self, copy: &Copy) -> Option<Reply> {
        let limit = match &copy.step {
            Step::Begin => BEGINNING,
            Step::Changes(parts) => {
                let bytes: usize = parts.iter().map(|part| part.1.len()).sum();
                STEP + Duration::from_millis((bytes / BYTES_PER_MS) as u64)
            }
            Step::Whole => STEP,
        };
        let word = Word {
            space: self.space.clone(),
            wish: Wish::Copy(copy.clone()),
        };
        let reply = self.ways.send(To::Pair, &word, limit).await?;
        Reply::decode(reply).ok()
    }
}
