//! A database of the version before opens and serves.

use steadfast_harness::postgres::PostgresCluster;

use crate::frozen::Frozen;

#[test]
fn a_database_of_the_version_before_opens_and_serves() {
    let frozen = Frozen::unpack("database", "killed.tar.gz");
    let mut cluster = PostgresCluster::start().unwrap();
    let url = cluster.create_database("frozen").unwrap();
    let primary = cluster.primary();
    let primary = cluster.server(primary);
    primary.load("frozen", &frozen.dump()).unwrap();
    frozen.on_database(&url).check();
}
