//! A value without a mutex.

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica) -> Result<()> {
    let houses: Dictionary<String, f64> = replica.state().get_or_add("houses").await?;
    let mut tx = replica.begin();
    houses.add(&mut tx, "seven", 19.0).await?;
    tx.commit().await?;
    Ok(())
}
