//! An attempt ends with its commit.
extern crate steadfast_collections as steadfast;

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica, houses: &Dictionary<String, f64>) -> Result<()> {
    let set = replica.transact(async |mut tx| {
        let done = tx.commit(()).await?;
        houses.set(&mut tx, "seven", 21.5).await?;
        Ok(done)
    });
    set.await
}

fn main() {}
