//! Every collection against a naive one.
//!
//! A list of steps is run on the real collections and on plain maps and lists;
//! whatever a step answers must agree. A transaction works on a copy of the model,
//! which replaces it with the commit. Flushes, restarts and clears come between.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use steadfast_collections::{ConcurrentQueue, Dictionary, DictionaryQuery, Log, Queue, Tx};

use crate::engine::CASES;
use crate::ground::{Site, block_on};

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u16),
    TryAdd(u8, u16),
    Get(u8),
    Update(u8),
    TryUpdate(u8, u16, u16),
    Remove(u8),
    Range(u8, u8),
    Odd,
    Enqueue(u16),
    Dequeue,
    Peek,
    Put(u16),
    Take,
    Append(u16),
    Trim(u8),
    Commit,
    Abort,
    Flush,
    Restart,
    Clear,
}

/// What is committed, or what a transaction sees.
#[derive(Clone, Debug, Default)]
struct Model {
    map: BTreeMap<u8, u16>,
    queue: VecDeque<u16>,
    log: Vec<u16>,
    first: usize,
}

/// Items of the concurrent queue: what is visible, and what a transaction holds.
#[derive(Debug, Default)]
struct Items {
    visible: Vec<u16>,
    taken: Vec<u16>,
    put: Vec<u16>,
}

struct Real {
    map: Dictionary<u8, u16>,
    queue: Queue<u16>,
    items: ConcurrentQueue<u16>,
    log: Log<u16>,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12u8;
    let value = 0..5u16;
    prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::Set(k, v)),
        3 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::TryAdd(k, v)),
        5 => key.clone().prop_map(Step::Get),
        3 => key.clone().prop_map(Step::Update),
        3 => (key.clone(), value.clone(), value.clone())
            .prop_map(|(k, new, old)| Step::TryUpdate(k, new, old)),
        3 => key.clone().prop_map(Step::Remove),
        3 => (key.clone(), key.clone()).prop_map(|(a, b)| Step::Range(a, b)),
        2 => Just(Step::Odd),
        4 => value.clone().prop_map(Step::Enqueue),
        4 => Just(Step::Dequeue),
        2 => Just(Step::Peek),
        4 => value.clone().prop_map(Step::Put),
        4 => Just(Step::Take),
        3 => value.prop_map(Step::Append),
        1 => (0..4u8).prop_map(Step::Trim),
        5 => Just(Step::Commit),
        3 => Just(Step::Abort),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]
    #[test]
    fn collections_do_what_plain_ones_do(steps in proptest::collection::vec(step(), 1..80)) {
        block_on(run(steps));
    }
}

async fn open(site: &Site) -> Real {
    let state = site.replica.state();
    Real {
        map: state.get_or_add("map").await.unwrap(),
        queue: state.get_or_add("queue").await.unwrap(),
        items: state.get_or_add("items").await.unwrap(),
        log: state.get_or_add("log").await.unwrap(),
    }
}

async fn run(steps: Vec<Step>) {
    let mut site = Site::new().await;
    let mut real = open(&site).await;
    let mut committed = Model::default();
    let mut items = Items::default();
    let mut steps = steps.into_iter().peekable();
    while steps.peek().is_some() {
        let mut tx = site.replica.begin();
        let mut own = committed.clone();
        let mut after = None;
        for step in steps.by_ref() {
            match step {
                Step::Commit | Step::Abort | Step::Flush | Step::Restart | Step::Clear => {
                    after = Some(step);
                    break;
                }
                step => apply(&step, &real, &mut tx, &mut own, &mut items).await,
            }
        }
        match after {
            Some(Step::Abort) => {
                tx.abort();
                items.abort();
            }
            _ => {
                tx.commit().await.unwrap();
                committed = own;
                items.commit();
            }
        }
        match after {
            Some(Step::Flush) => site.store.flush().await.unwrap(),
            Some(Step::Restart) => {
                site = site.restart().await;
                real = open(&site).await;
            }
            Some(Step::Clear) => {
                real.map.clear().await.unwrap();
                real.queue.clear().await.unwrap();
                committed.map.clear();
                committed.queue.clear();
            }
            _ => {}
        }
        compare(&site, &real, &committed, &items).await;
    }
}

async fn apply(step: &Step, real: &Real, tx: &mut Tx, own: &mut Model, items: &mut Items) {
    match *step {
        Step::Set(k, v) => {
            real.map.set(tx, k, v).await.unwrap();
            own.map.insert(k, v);
        }
        Step::TryAdd(k, v) => {
            let added = real.map.try_add(tx, k, v).await.unwrap();
            assert_eq!(added, !own.map.contains_key(&k));
            own.map.entry(k).or_insert(v);
        }
        Step::Get(k) => {
            let found = real.map.get(tx, &k).await.unwrap().map(|v| *v);
            assert_eq!(found, own.map.get(&k).copied());
        }
        Step::Update(k) => {
            let changed = real.map.update(tx, &k, |v| v + 1).await.unwrap();
            let slot = own.map.get_mut(&k);
            assert_eq!(changed, slot.is_some());
            if let Some(value) = slot {
                *value += 1;
            }
        }
        Step::TryUpdate(k, new, old) => {
            let changed = real.map.try_update(tx, &k, new, &old).await.unwrap();
            assert_eq!(changed, own.map.get(&k) == Some(&old));
            if changed {
                own.map.insert(k, new);
            }
        }
        Step::Remove(k) => {
            let removed = real.map.try_remove(tx, &k).await.unwrap().map(|v| *v);
            assert_eq!(removed, own.map.remove(&k));
        }
        Step::Range(a, b) => {
            let (low, high) = (a.min(b), a.max(b));
            let query = DictionaryQuery::range(low..high).page(2);
            let found = real.map.entries(tx, query).await.unwrap();
            let found: Vec<_> = found.into_iter().map(|(k, v)| (k, *v)).collect();
            let expected: Vec<_> = own.map.range(low..high).map(|(k, v)| (*k, *v)).collect();
            assert_eq!(found, expected);
        }
        Step::Odd => {
            let query = || DictionaryQuery::all().filter(|k: &u8| k % 2 == 1).page(3);
            let found = real.map.entries(tx, query()).await.unwrap();
            let found: Vec<_> = found.into_iter().map(|(k, v)| (k, *v)).collect();
            let expected = own.map.iter().filter(|(k, _)| *k % 2 == 1);
            assert_eq!(found, expected.map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            let mut keys = Vec::new();
            let mut cursor = real.map.enumerate(query()).unwrap();
            while let Some(page) = cursor.next_keys(tx).await.unwrap() {
                keys.extend(page);
            }
            assert!(keys.iter().eq(found.iter().map(|(k, _)| k)), "{keys:?}");
        }
        Step::Enqueue(v) => {
            real.queue.enqueue(tx, v).await.unwrap();
            own.queue.push_back(v);
        }
        Step::Dequeue => {
            let found = real.queue.try_dequeue(tx).await.unwrap().map(|v| *v);
            assert_eq!(found, own.queue.pop_front());
        }
        Step::Peek => {
            let found = real.queue.try_peek(tx).await.unwrap().map(|v| *v);
            assert_eq!(found, own.queue.front().copied());
        }
        Step::Put(v) => {
            real.items.enqueue(tx, v).await.unwrap();
            items.put.push(v);
        }
        Step::Take => {
            let found = real.items.try_dequeue(tx).await.unwrap().map(|v| *v);
            items.take(found);
        }
        Step::Append(v) => {
            real.log.append(tx, &v).await.unwrap();
            own.log.push(v);
        }
        Step::Trim(more) => {
            let durable = real.log.bounds().unwrap();
            let first = (durable.first + u64::from(more)).min(durable.next);
            real.log.trim(tx, first).await.unwrap();
            own.first = own.first.max(first as usize);
        }
        _ => unreachable!("it ends a transaction"),
    }
}

async fn compare(site: &Site, real: &Real, model: &Model, items: &Items) {
    let mut tx = site.replica.begin();
    let map = real
        .map
        .entries(&mut tx, DictionaryQuery::all())
        .await
        .unwrap();
    let map: BTreeMap<_, _> = map.into_iter().map(|(k, v)| (k, *v)).collect();
    assert_eq!(map, model.map);
    assert_eq!(real.map.count(&mut tx).await.unwrap(), map.len() as u64);
    assert_eq!(real.map.approx_count(), map.len() as u64);
    let queue = real.queue.entries(&mut tx).await.unwrap();
    let queue: VecDeque<_> = queue.into_iter().map(|v| *v).collect();
    assert_eq!(queue, model.queue);
    let visible = items.visible.len() as u64;
    assert_eq!(real.items.len().await.unwrap(), visible);
    let log = real.log.read(0, usize::MAX).await.unwrap();
    let log: Vec<_> = log
        .into_iter()
        .map(|e| (e.number as usize, e.value))
        .collect();
    let expected = model.log.iter().copied().enumerate().skip(model.first);
    assert_eq!(log, expected.collect::<Vec<_>>());
}

impl Items {
    /// Order is best effort: any visible item is right, and none only if none is.
    fn take(&mut self, found: Option<u16>) {
        let Some(found) = found else {
            assert!(self.visible.is_empty());
            return;
        };
        let place = self.visible.iter().position(|item| *item == found);
        self.visible
            .swap_remove(place.expect("an item that is there"));
        self.taken.push(found);
    }

    fn commit(&mut self) {
        self.taken.clear();
        self.visible.append(&mut self.put);
    }

    fn abort(&mut self) {
        self.put.clear();
        self.visible.append(&mut self.taken);
    }
}
