//! Databases that are refused, each with its code.

use std::time::Duration;

use steadfast_core::id::Epoch;
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::Engine;
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};

use crate::pg::{P, WE, cluster, commit, event, flush, open, single, take, wait};

/// A server of its own, with settings.
fn server(settings: &str) -> PostgresServer {
    wait(|| {
        let mut server = PostgresServer::create("own", settings)?;
        server.start()?;
        Ok(server)
    })
}

/// The code and the text of the refusal.
async fn refusal(options: Options) -> (String, String) {
    match PostgresEngine::open(options).await {
        Ok(_) => panic!("it was not refused"),
        Err(error) => (error.code().to_string(), error.to_string()),
    }
}

fn with(url: String, durability: Durability) -> Options {
    Options {
        durability,
        patience: Duration::from_secs(2),
        ..Options::new(url)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_refused() {
    let server = server("");
    wait(|| {
        server.sql(
            "create role locked login password 'right'; grant all on database postgres to locked",
        )
    });
    let single = |user: &str| with(server.url(user), Durability::Single);
    let (code, text) = refusal(single("locked:wrong")).await;
    assert_eq!(code, "STF-2031", "{text}");
    assert!(text.contains("28P01"), "{text}");
    assert!(
        !text.contains("wrong"),
        "a password must not be shown: {text}"
    );
    let (code, text) = refusal(single("locked")).await;
    assert_eq!(code, "STF-2031", "{text}");
    // The right one gets in, and the grants of the guide are enough.
    open(single("locked:right")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_guide_is_enough() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/postgres.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let statements = guide.split("```sql\n").nth(1).unwrap();
    let statements = statements.split("```").next().unwrap();
    assert!(statements.contains("pg_monitor"), "{statements}");
    let mut cluster = cluster();
    let primary = cluster.primary();
    for statement in statements.lines() {
        wait(|| cluster.server(primary).sql(statement));
    }
    let url = cluster.url();
    let url = url.replace("//postgres@", "//steadfast:secret@");
    let url = url.replace("/postgres", "/steadfast");
    let options = with(url.clone(), Durability::Quorum);
    let engine = open(options).await;
    take(&engine, P, WE, 0).await;
    // Everything that it does: commits, new segments, flushes, wake-ups, records.
    commit(&engine, event(P, 1, 1, b"event")).await;
    engine.flush(flush(P, 1, 1, 3)).await.unwrap();
    engine.cas("record", 0, "x".into()).await.unwrap();
    engine.release(P, Epoch(1)).await.unwrap();
    // Without the grant it cannot tell whether a standby counts.
    wait(|| {
        cluster
            .server(primary)
            .sql("revoke pg_monitor from steadfast")
    });
    let (code, text) = refusal(with(url, Durability::Quorum)).await;
    assert_eq!(code, "STF-2030", "{text}");
    assert!(text.contains("pg_monitor"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c65_settings_that_lose_commits_are_refused() {
    let server = server("");
    let url = || server.url("postgres");
    for (name, value, durability) in [
        ("fsync", "off", Durability::Single),
        ("full_page_writes", "off", Durability::Single),
        ("zero_damaged_pages", "on", Durability::Single),
        ("ignore_checksum_failure", "on", Durability::Single),
        ("synchronous_standby_names", "*", Durability::Quorum),
        ("synchronous_standby_names", "ANY 1 (*)", Durability::Quorum),
        ("synchronous_standby_names", "", Durability::Quorum),
    ] {
        wait(|| server.set(name, value));
        wait(|| server.wait_for(&format!("show {name}"), value));
        let (code, text) = refusal(with(url(), durability)).await;
        assert_eq!(code, "STF-2030", "{text}");
        assert!(text.contains(name), "{text}");
        wait(|| server.sql(&format!("alter system reset {name}")));
        wait(|| server.sql("select pg_reload_conf()"));
    }
    wait(|| server.wait_for("show ignore_checksum_failure", "off"));
    open(with(url(), Durability::Single)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_without_a_synchronous_standby_is_refused() {
    let server = server("synchronous_standby_names = 'ANY 1 (b,c)'");
    let quorum = || with(server.url("postgres"), Durability::Quorum);
    let (code, text) = refusal(quorum()).await;
    assert_eq!(code, "STF-2030", "{text}");
    assert!(text.contains("no standby"), "{text}");
    // One that streams, but does not count, is no better.
    let _standby = wait(|| {
        let mut standby = PostgresServer::create("x", "")?;
        standby.rebuild(&server)?;
        let streams = "select count(*) from pg_stat_replication where state = 'streaming'";
        server.wait_for(streams, "1")?;
        Ok(standby)
    });
    let (code, text) = refusal(quorum()).await;
    assert_eq!(code, "STF-2030", "{text}");
    assert!(text.contains("no standby"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused() {
    let options = single();
    drop(open(options.clone()).await);
    let newer = format!(
        "update {}.sf_meta set v = '99' where k = 'reader'",
        options.schema
    );
    wait(|| PostgresServer::shared().sql(&newer));
    let (code, text) = refusal(options).await;
    assert_eq!(code, "STF-2033", "{text}");
    assert!(text.contains("99"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_cluster_is_refused() {
    let mut options = single();
    let cluster = open(options.clone()).await.cluster().to_string();
    options.cluster = Some(cluster.clone());
    drop(open(options.clone()).await);
    options.cluster = Some("another".to_string());
    let (code, text) = refusal(options).await;
    assert_eq!(code, "STF-2034", "{text}");
    assert!(text.contains(&cluster), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_address_is_refused() {
    let (code, _) = refusal(Options::new("no address")).await;
    assert_eq!(code, "STF-2037");
    let mut options = Options::new("postgres://user@127.0.0.1/x");
    options.schema = "Robert'); drop table".to_string();
    let (code, text) = refusal(options).await;
    assert_eq!(code, "STF-2037", "{text}");
    let mut unreachable = Options::new("postgres://user@127.0.0.1:1/x");
    unreachable.patience = Duration::from_millis(500);
    let (code, text) = refusal(unreachable).await;
    assert_eq!(code, "STF-2032", "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_twice_changes_nothing() {
    let options = single();
    let first = open(options.clone()).await;
    let second = open(options).await;
    assert_eq!(first.cluster(), second.cluster());
    assert!(first.health().is_ok());
    assert!(matches!(
        first.scrub().await[..],
        [ref replica] if replica.is_primary && replica.findings.is_empty()
    ));
}
