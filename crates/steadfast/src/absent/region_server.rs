//! A server that no other region reaches.

use std::sync::Arc;

use super::inner::Inner;
use super::region::RegionListener;

#[expect(
    clippy::needless_pass_by_value,
    reason = "as the server of a pair takes it"
)]
pub(super) fn open(listener: RegionListener, _: &Arc<Inner>) {
    match listener {}
}
