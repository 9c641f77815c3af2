//! One operation of an attempt after the other.

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica, houses: &Dictionary<String, f64>) -> Result<()> {
    let set = replica.transact(async |mut tx| {
        let first = houses.set(&mut tx, "seven", 21.5);
        first.await?;
        let second = houses.set(&mut tx, "eight", 19.0);
        second.await?;
        tx.commit(()).await
    });
    set.await
}
