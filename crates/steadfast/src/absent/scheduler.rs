//! A node without the Scheduler's REST interface.

use std::sync::Arc;

use steadfast_net::http::Routes;

use super::error::Result;
use super::inner::Inner;

pub(super) fn routes(_: &Arc<Inner>, _: bool, routes: Routes) -> Routes {
    routes
}

pub(super) async fn declare(_: &Arc<Inner>) -> Result<()> {
    Ok(())
}
