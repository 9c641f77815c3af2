//! A transaction ends with its commit.
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
    houses.get(&mut tx, "seven").await?;
    tx.commit().await?;
    houses.get(&mut tx, "seven").await?;
    Ok(())
}

fn main() {}
