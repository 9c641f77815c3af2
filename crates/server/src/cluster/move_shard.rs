//! `steadfast cluster move-shard`.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steadfast::id::Partition;
use steadfast::storage::backup::{self, RelocationRequest};

use crate::output::progress::show;
use crate::output::{OutputFormat, print, timed};
use crate::store::database::DatabaseAddress;
use crate::store::durability_argument::DurabilityArgument;

#[derive(Args)]
pub(crate) struct MoveShardArguments {
    /// All databases in order, separated by spaces
    #[arg(long, value_name = "ADDRESSES")]
    data: DatabaseAddress,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// Index of a partition to move; may be repeated
    #[arg(long, value_name = "INDEX", required_unless_present = "from")]
    partition: Vec<u16>,
    /// Move all partitions off this database, by its index in the addresses from 0
    #[arg(long, value_name = "PLACE", conflicts_with = "partition")]
    from: Option<u16>,
    /// The database to move them to
    #[arg(long, value_name = "PLACE")]
    to: u16,
}

/// Moves the partitions and compares the copies.
pub(super) fn run(arguments: &MoveShardArguments, output: OutputFormat) -> Result<()> {
    let options = arguments.data.options(arguments.durability);
    let index = |index: &u16| Partition::new(0, *index);
    let order = RelocationRequest {
        partitions: arguments.partition.iter().map(index).collect(),
        from: arguments.from,
        to: arguments.to,
    };
    let (moved, seconds) = timed(async |progress| {
        let moved = Box::pin(backup::relocate(&options, &order, progress));
        show(progress, moved).await
    })?;
    let facts = [
        ("to", json!(arguments.to)),
        ("partitions", json!(moved.partitions)),
        ("resumed", json!(moved.resumed)),
        ("rows", json!(moved.rows)),
        ("bytes", json!(moved.bytes)),
        ("compared", json!(true)),
        ("seconds", json!(seconds)),
    ];
    print(&facts, output)
}
