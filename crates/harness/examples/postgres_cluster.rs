//! Starts a PostgreSQL cluster and prints its address.
//!
//! One primary, two standbys, quorum commit. It lives until the end of the input
//! (Ctrl-D), for `steadfast bench postgres --url ...` and for trying things out.

#![expect(clippy::print_stdout, reason = "the address is what it is for")]

use std::io::Read;

use steadfast_harness::postgres::PostgresCluster;

fn main() -> anyhow::Result<()> {
    let cluster = PostgresCluster::start()?;
    println!("{}", cluster.url());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
