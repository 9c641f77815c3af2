//! A value with a mutex could be changed by its readers.
extern crate steadfast_collections as steadfast;

use std::sync::Mutex;

use steadfast::{Dictionary, Replica, Result};

async fn case(replica: &Replica) -> Result<()> {
    let houses: Dictionary<String, Mutex<f64>> = replica.state().get_or_add("houses").await?;
    drop(houses);
    Ok(())
}

fn main() {}
