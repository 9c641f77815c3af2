//! A changed value is made from the one that was read.

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
    if let Some(house) = houses.get(&mut tx, "seven").await? {
        let mut house = house.evolve();
        house.warmth = 21.5;
        houses.set(&mut tx, "seven", house).await?;
    }
    tx.commit().await?;
    Ok(())
}
