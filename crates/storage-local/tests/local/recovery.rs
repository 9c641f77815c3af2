//! Power cuts: any subset of unsynced blocks survives.
//!
//! A fake disk below the whole folder, the tables' files included, cuts the power
//! after a random number of operations and keeps whatever the seed says of what
//! was not synced. After each open the state must equal a pure replay of a copy of
//! the log that is never trimmed. `STEADFAST_SEEDS` sets how many seeds are tried,
//! `STEADFAST_SEED` names the one to try again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Owner, Partition};
use steadfast_harness::FakeDisk;
use steadfast_storage::{Error, Ledger, Options, Store};
use steadfast_storage_local::{self as local, LocalEngine};

use crate::model::{Model, compare, durable, writes};

const PARTITIONS: usize = 4;

/// Runs one seed after the other; a failing one is named.
fn each_seed(default: u64, name: &str, run: impl Fn(&FakeDisk, u64)) {
    let read = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match read("STEADFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..read("STEADFAST_SEEDS").unwrap_or(default),
    };
    let disk = FakeDisk::mount().unwrap();
    for seed in seeds.clone() {
        disk.reset();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&disk, seed))) {
            println!(
                "seed {seed} failed; again: STEADFAST_SEED={seed} cargo test -p steadfast-storage-local --test local recovery::{name}"
            );
            resume_unwind(panic);
        }
    }
    println!("{name}: {} seeds", seeds.end - seeds.start);
}

#[test]
fn power_cut() {
    each_seed(500, "power_cut", |disk, seed| run(disk, seed, false));
}

/// Flushes and commits at the same time. The threads make their own order, so a
/// seed need not fail twice; that is why this is not the test above.
#[test]
fn power_cut_under_concurrency() {
    each_seed(100, "power_cut_under_concurrency", |disk, seed| {
        run(disk, seed, true)
    });
}

fn run(disk: &FakeDisk, seed: u64, concurrent: bool) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let mut world = World {
        rng: Rng::with_seed(seed),
        clock: VirtualClock::starting_at(Timestamp(1_000_000)),
        models: vec![Model::default(); PARTITIONS],
        acked: vec![0; PARTITIONS],
        in_flight: Vec::new(),
        concurrent,
        lives: 0,
    };
    for _ in 0..world.rng.u32(2..7) {
        runtime.block_on(world.live(disk));
    }
    // The last life must find everything, undisturbed.
    runtime.block_on(async {
        let store = world.open(disk.path()).unwrap();
        world.verify(&store).await.unwrap();
        store.close().await;
    });
}

struct World {
    rng: Rng,
    clock: VirtualClock,
    models: Vec<Model>,
    /// Transactions of each partition that were acknowledged.
    acked: Vec<usize>,
    /// The last group: partition and transactions there with it.
    in_flight: Vec<(usize, usize)>,
    concurrent: bool,
    lives: u64,
}

impl World {
    /// Opens, checks, works, and dies.
    async fn live(&mut self, disk: &FakeDisk) {
        self.lives += 1;

        let operations = match self.rng.u8(0..4) {
            0 => self.rng.u64(0..60),
            1 => self.rng.u64(0..2000),
            _ => self.rng.u64(0..400),
        };
        let seed = self.rng.u64(..);
        let is_killed = self.rng.u8(0..5) == 0;
        if !is_killed {
            disk.cut_after(operations, seed);
        }
        let outcome = self.work(disk, is_killed).await;
        if is_killed {
            // The process is gone, the machine goes on: what was written is there,
            // synced or not.
            disk.fail_sync(None);
            return;
        }
        if let Err(error) = outcome {
            assert!(disk.is_cut(), "failed without a power cut: {error}");
        }
        if !disk.is_cut() {
            disk.cut_now(seed);
        }
        disk.restart();
    }

    async fn work(&mut self, disk: &FakeDisk, is_killed: bool) -> Result<(), Error> {
        let store = self.open(disk.path())?;
        let outcome = self.serve(disk, &store, is_killed).await;
        store.close().await;
        outcome
    }

    async fn serve(
        &mut self,
        disk: &FakeDisk,
        store: &Store,
        is_killed: bool,
    ) -> Result<(), Error> {
        let ledgers = self.verify(store).await?;
        let rounds = self.rng.usize(0..40);
        for round in 0..rounds {
            if is_killed && round == rounds / 2 {
                // Of the log only, or of everything, names included.
                let which = if self.rng.bool() { ".log" } else { "" };
                disk.fail_sync(Some(which));
            }
            if let Err(error) = self.step(store, &ledgers).await {
                return if is_killed { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    fn open(&mut self, path: &Path) -> Result<Store, Error> {
        let options = local::Options {
            clock: Arc::new(self.clock.clone()),
            log_file_bytes: [8, 16, 64][self.rng.usize(0..3)] * 1024,
            event_file_bytes: [1, 4, 16][self.rng.usize(0..3)] * 1024,
            inline_event_bytes: [200, 1000, 4000][self.rng.usize(0..3)],
            block_cache_bytes: 64 * 1024,
            background: self.concurrent,
            ..local::Options::default()
        };
        let engine = LocalEngine::open(&path.join("data"), &options)?;
        let owner = Owner {
            node: 1,
            incarnation: u128::from(self.lives),
        };
        let mut options = Options::new(owner);
        options.clock = Arc::new(self.clock.clone());
        options.event_tail = self.rng.u64(0..20_000);
        options.row_cache = 64 * 1024;
        Ok(Store::start(Arc::new(engine), options))
    }

    /// Compares the store with the model and brings the model up to it.
    async fn verify(&mut self, store: &Store) -> Result<Vec<Ledger>, Error> {
        let mut ledgers = Vec::new();
        for index in 0..PARTITIONS {
            let ledger = store.acquire(Partition(index as u32)).await?;
            let found = durable(&ledger).0 as usize;
            let (acked, sent) = (self.acked[index], self.models[index].transactions.len());
            assert!(
                (acked..=sent).contains(&found),
                "partition {index} has {found} transactions, {acked} were acknowledged, {sent} sent"
            );
            self.models[index].truncate(found);
            ledgers.push(ledger);
        }
        let there = self.in_flight.iter();
        let there = there.map(|(index, count)| self.models[*index].transactions.len() >= *count);
        let there: Vec<bool> = there.collect();
        assert!(
            there.windows(2).all(|pair| pair[0] == pair[1]),
            "a group is there in part: {:?}",
            self.in_flight
        );
        for (model, ledger) in self.models.iter().zip(&ledgers) {
            compare(ledger, &model.state, &mut self.rng).await?;
        }
        for (acked, model) in self.acked.iter_mut().zip(&self.models) {
            *acked = model.transactions.len();
        }
        self.in_flight.clear();
        Ok(ledgers)
    }

    async fn step(&mut self, store: &Store, ledgers: &[Ledger]) -> Result<(), Error> {
        self.clock
            .advance(std::time::Duration::from_millis(self.rng.u64(0..5)));
        match self.rng.u8(0..10) {
            0 => store.flush().await,
            1 => ledgers[self.rng.usize(0..PARTITIONS)].flush().await,
            2 if self.concurrent => {
                let flush = store.flush();
                let commit = self.commit(ledgers);
                let (flushed, committed) = tokio::join!(flush, commit);
                flushed.and(committed)
            }
            _ => self.commit(ledgers).await,
        }
    }

    /// Commits one group: transactions in some partitions.
    async fn commit(&mut self, ledgers: &[Ledger]) -> Result<(), Error> {
        self.in_flight.clear();
        let mut waiting = Vec::new();
        for (index, ledger) in ledgers.iter().enumerate() {
            if self.rng.bool() {
                continue;
            }
            for _ in 0..self.rng.usize(1..3) {
                let ops = self.models[index].random(&mut self.rng, 6000);
                let commit = ledger.commit(writes(&ops));
                self.models[index].push(ops);
                waiting.push((index, commit));
            }
            self.in_flight
                .push((index, self.models[index].transactions.len()));
        }
        let mut done = Vec::new();
        for (index, commit) in waiting {
            let staged = commit.await?;
            done.push((index, staged.lsn.0 as usize));
        }
        for (index, lsn) in done {
            self.acked[index] = lsn;
        }
        Ok(())
    }
}
