//! An attempt does one operation at a time.
extern crate steadfast_collections as steadfast;

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica, houses: &Dictionary<String, f64>) -> Result<()> {
    let set = replica.transact(async |mut tx| {
        let first = houses.set(&mut tx, "seven", 21.5);
        let second = houses.set(&mut tx, "eight", 19.0);
        second.await?;
        first.await?;
        tx.commit(()).await
    });
    set.await
}

fn main() {}
