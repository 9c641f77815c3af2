//! The next use needs a new transaction, a value does not.

use steadfast::schema::{Record, Unknown};
use steadfast::{Dictionary, Replica, Result};

#[derive(Record, Clone)]
struct House {
    #[n(0)]
    warmth: f64,
    unknown: Unknown,
}

async fn case(replica: &Replica, houses: &Dictionary<String, House>) -> Result<()> {
    let mut tx = replica.begin();
    let house = houses.get(&mut tx, "seven").await?;
    tx.commit().await?;
    let mut tx = replica.begin();
    houses.get(&mut tx, "seven").await?;
    drop((tx, house));
    Ok(())
}
