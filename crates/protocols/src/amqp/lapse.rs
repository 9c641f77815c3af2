//! Tokens end, and links that rest on them.

use steadfast_core::clock::Timestamp;

use super::connection::Connection;
use super::fault::Fault;

impl Connection {
    /// When a token ends next.
    pub(super) fn next_lapse(&self) -> Option<Timestamp> {
        self.context.access.as_ref()?;
        self.tokens.next_end(self.context.clock.now())
    }

    /// Detaches links whose token has ended and was not renewed.
    pub(super) fn lapse(&mut self) {
        let now = self.context.clock.now();
        let lapsed: Vec<_> = self
            .links
            .iter()
            .filter_map(|(id, link)| {
                let need = link.need.as_ref()?;
                let allowed = self.tokens.allow(&need.path, &need.hub, need.right, now);
                allowed.err().map(|denied| (*id, Fault::from(denied)))
            })
            .collect();
        for (id, fault) in lapsed {
            self.cut(id, &fault);
        }
    }
}
