//! A closure returns what the commit returns.

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica, houses: &Dictionary<String, f64>) -> Result<f64> {
    let warmth = replica.transact(async |mut tx| {
        let warmth = houses
            .get(&mut tx, "seven")
            .await?
            .map_or(0.0, |found| *found);
        houses.set(&mut tx, "seven", warmth + 1.0).await?;
        tx.commit(warmth).await
    });
    warmth.await
}

fn spawned(replica: Replica, houses: Dictionary<String, f64>) {
    tokio::spawn(async move { case(&replica, &houses).await });
}
