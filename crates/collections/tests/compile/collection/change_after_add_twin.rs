//! A value is changed before it is added.

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
    let mut house = House {
        warmth: 19.0,
        unknown: Unknown::NONE,
    };
    house.warmth = 21.5;
    houses.add(&mut tx, "seven", house).await?;
    tx.commit().await?;
    Ok(())
}
