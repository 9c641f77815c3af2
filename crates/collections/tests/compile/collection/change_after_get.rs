//! A value that was read cannot be changed in place.
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
    if let Some(mut house) = houses.get(&mut tx, "seven").await? {
        house.warmth = 21.5;
    }
    tx.commit().await?;
    Ok(())
}

fn main() {}
