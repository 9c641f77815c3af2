//! A value that was added cannot be changed any more.
extern crate steadfast_collections as steadfast;

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
    houses.add(&mut tx, "seven", house).await?;
    house.warmth = 21.5;
    tx.commit().await?;
    Ok(())
}

fn main() {}
