//! Counts on a PostgreSQL cluster and shows the gaps.
//!
//! `postgres_count <url> <seconds>`: run it, kill the primary, and see how long
//! commits stood still and that no acknowledged count is lost.

#![expect(clippy::print_stdout, reason = "a program to look at")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{Owner, Partition, TableId};
use steadfast_storage::{Ledger, Options as StoreOptions, Store, Visibility, Writes};
use steadfast_storage_postgres::{Options, PostgresEngine};

const COUNTER: (TableId, &[u8]) = (TableId(1), b"count");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("postgres_count <url> <seconds>")?;
    let seconds = arguments.next().ok_or("postgres_count <url> <seconds>")?;
    let duration = Duration::from_secs(seconds.parse()?);
    let engine = Arc::new(PostgresEngine::open(Options::new(url)).await?);
    let owner = Owner {
        node: 1,
        incarnation: u128::from(fastrand::u64(..)),
    };
    let store = Store::start(engine, StoreOptions::new(owner));
    let mut ledger = store.acquire(Partition(0)).await?;
    let clock = SystemClock::new();
    let first = stored(&ledger).await?;
    let (mut count, mut longest) = (first, Duration::ZERO);
    while clock.monotonic() < duration {
        let started = clock.monotonic();
        let mut writes = Writes::new();
        writes.put(COUNTER.0, COUNTER.1, &(count + 1).to_be_bytes());
        match ledger.commit(writes).await {
            Ok(_) => count += 1,
            Err(error) => {
                println!("after {count}: {error}");
                ledger = again(&store).await;
                let found = stored(&ledger).await?;
                if found != count && found != count + 1 {
                    return Err(format!("{count} was acknowledged, {found} is there").into());
                }
                count = found;
            }
        }
        longest = longest.max(clock.monotonic() - started);
    }
    let found = stored(&store.acquire(Partition(0)).await?).await?;
    println!("{} acknowledged, longest gap {longest:?}", count - first);
    if found == count {
        Ok(())
    } else {
        Err(format!("{count} was acknowledged, {found} is there").into())
    }
}

/// Takes the partition again, as often as it needs.
async fn again(store: &Store) -> Ledger {
    loop {
        match store.acquire(Partition(0)).await {
            Ok(ledger) => return ledger,
            Err(error) => println!("not yet: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn stored(ledger: &Ledger) -> Result<u64, Box<dyn Error>> {
    let value = ledger
        .get(COUNTER.0, COUNTER.1, Visibility::Durable)
        .await?;
    Ok(match value {
        Some(value) => u64::from_be_bytes(value[..].try_into()?),
        None => 0,
    })
}
