//! What belongs to an attempt comes before its commit.

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica, houses: &Dictionary<String, f64>) -> Result<()> {
    let set = replica.transact(async |mut tx| {
        houses.set(&mut tx, "seven", 21.5).await?;
        let done = tx.commit(()).await?;
        Ok(done)
    });
    set.await
}
