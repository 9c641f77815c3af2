//! Several owners in one process, whose acquisitions overlap.
//!
//! A view in place of a table holds one statement of the engine until it is released; the
//! statement still answers what was true when it began.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::Epoch;
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::engine::{AcquireOutcome, Engine};
use steadfast_storage_postgres::Options;

use crate::pg::{P, THEY, WE, commit, entry, open, single, take, wait};

/// Holds the first statement of a kind.
struct HeldStatement {
    schema: String,
    /// How the statement begins.
    text: &'static str,
}

impl HeldStatement {
    /// Holds the first statement that begins with `text` and reads a row of `table`.
    fn new(schema: &str, table: &str, text: &'static str) -> Self {
        sql(&format!(
            "set search_path = {schema};
             create table held(is_held bool);
             insert into held values (true);
             create sequence arrivals;
             create function hold() returns bool language plpgsql volatile as $$
               begin
                 if starts_with(current_query(), '{text}')
                     and nextval('{schema}.arrivals') = 1 then
                   while (select is_held from {schema}.held) loop
                     perform pg_sleep(0.01);
                   end loop;
                 end if;
                 return true;
               end $$;
             alter table {table} rename to {table}_rows;
             create view {table} as select * from {table}_rows where hold();"
        ));
        Self {
            schema: schema.to_string(),
            text,
        }
    }

    /// Waits until the statement is held.
    fn wait_until_reached(&self) {
        let text = self.text;
        let waiting = format!(
            "select count(*) from pg_stat_activity
             where wait_event = 'PgSleep' and starts_with(query, '{text}')"
        );
        wait(|| PostgresServer::shared().wait_for(&waiting, "1"));
    }

    fn release(&self) {
        sql(&format!("update {}.held set is_held = false", self.schema));
    }
}

fn sql(statement: &str) {
    wait(|| PostgresServer::shared().sql(statement));
}

/// Patient with a statement that is held.
fn patient() -> Options {
    Options {
        deadline: Duration::from_secs(60),
        ..single()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_is_older_than_the_next_acquisition_is_no_loss() {
    let options = patient();
    let schema = options.schema.clone();
    let engine = Arc::new(open(options).await);
    take(&engine, P, WE, 0).await;
    let held = HeldStatement::new(&schema, "sf_partition", "select epoch, owner,");
    let late = Arc::clone(&engine);
    let late = tokio::spawn(async move { late.acquire(P, THEY, Epoch(0)).await });
    held.wait_until_reached();
    take(&engine, P, WE, 1).await;
    held.release();
    let outcome = late.await.unwrap().unwrap();
    let AcquireOutcome::Refused { epoch, owner } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((epoch, owner), (Epoch(1), Some(WE)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_is_verified_late_does_not_replace_the_next_one() {
    let options = patient();
    let schema = options.schema.clone();
    // Another process has written what the acquisitions verify.
    let former = open(options.clone()).await;
    take(&former, P, WE, 0).await;
    commit(&former, entry(P, 1, 1, b"one")).await;
    let engine = Arc::new(open(options).await);
    let held = HeldStatement::new(&schema, "sf_log", "select no, piece, crc, body");
    let late = Arc::clone(&engine);
    let late = tokio::spawn(async move { late.acquire(P, THEY, Epoch(1)).await });
    held.wait_until_reached();
    take(&engine, P, WE, 2).await;
    held.release();
    let outcome = late.await.unwrap().unwrap();
    assert!(matches!(outcome, AcquireOutcome::Granted(_)), "{outcome:?}");
    commit(&engine, entry(P, 3, 2, b"two")).await;
}
