//! Whether the databases of a command can be reached.
//!
//! A running node waits for a primary, because a failover ends. An operator who waits for a
//! command has more use for an early error.

use std::time::Duration;

use steadfast_storage::Result;

use crate::options::Options;
use crate::servers::Servers;

/// How long to look for the primary of a database.
const REACH: Duration = Duration::from_secs(8);

/// Refuses an address of which a database has no primary that answers soon.
pub async fn expect_reachable(options: &Options) -> Result<()> {
    for one in options.each() {
        let patience = one.patience.min(REACH);
        let servers = Servers::new(one)?;
        Box::pin(servers.connect_strictly(patience)).await?;
    }
    Ok(())
}
