//! A read from memory allocates nothing.
//!
//! Operations are polled once, without a runtime: nothing in them has to wait.

use futures_util::FutureExt;
use steadfast_collections::{Dictionary, Tx};

use crate::ground::{Site, block_on};

const KEYS: u64 = 100;

fn read(words: &Dictionary<String, u64>, tx: &mut Tx, keys: &[String]) {
    for key in keys {
        let found = words.get(tx, key).now_or_never();
        let found = found.expect("it is in memory").unwrap();
        assert!(found.is_some());
    }
}

#[test]
fn an_uncontended_read_of_a_resident_row_allocates_nothing() {
    block_on(async {
        let site = Site::roomy().await;
        let state = site.replica.state();
        let words: Dictionary<String, u64> = state.get_or_add("words").await.unwrap();
        let keys: Vec<String> = (0..KEYS).map(|n| format!("key {n}")).collect();
        let mut tx = site.replica.begin();
        for key in &keys {
            words.set(&mut tx, key.clone(), 1).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = site.replica.begin();
        read(&words, &mut tx, &keys);
        let again = allocation_counter::measure(|| read(&words, &mut tx, &keys));
        assert_eq!(again.count_total, 0, "locks that are held already");
        drop(tx);
        // A new transaction notes each lock: its list grows by doubling.
        let mut tx = site.replica.begin();
        let first = allocation_counter::measure(|| read(&words, &mut tx, &keys));
        assert!(
            first.count_total < 16,
            "{} for {KEYS} reads",
            first.count_total
        );
    });
}
