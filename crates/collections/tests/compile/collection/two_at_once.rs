//! A transaction does one operation at a time.
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
    let (seven, eight) = ("seven".to_owned(), "eight".to_owned());
    let first = houses.get(&mut tx, &seven);
    let second = houses.get(&mut tx, &eight);
    second.await?;
    first.await?;
    tx.commit().await?;
    Ok(())
}

fn main() {}
