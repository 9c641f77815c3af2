//! Names that two homes share: none is used twice.
#![expect(clippy::unwrap_used, reason = "tests")]

mod lab;

use lab::{Lab, Node};
use proptest::prelude::*;
use steadfast_jobs::{CollectionDraft, CollectionId, ErrorKind, Expect, Naming, SweepKind};

fn draft(id: &CollectionId) -> CollectionDraft {
    CollectionDraft {
        id: id.clone(),
        document: "{}".into(),
        most_jobs: None,
        is_enabled: None,
    }
}

fn id() -> CollectionId {
    CollectionId::new("sub", "rg", "jc").unwrap()
}

/// The first home, which keeps the names, and the second.
struct Homes([Node; 2]);

impl Homes {
    async fn has(&self, home: usize) -> bool {
        self.0[home].jobs.collection(&id()).await.is_ok()
    }

    async fn ask(&self, home: usize, naming: Naming) -> Result<Option<u64>, ErrorKind> {
        let said = self.0[home].jobs.name(&id(), naming).await;
        said.map_err(|error| error.kind())
    }

    async fn put(&self, home: usize, expect: Expect) -> Result<(), ErrorKind> {
        let made = self.0[home].jobs.put_collection(draft(&id()), expect).await;
        made.map(drop).map_err(|error| error.kind())
    }

    async fn delete(&self, home: usize) {
        let jobs = &self.0[home].jobs;
        if let Ok(number) = jobs.sweep(&id(), SweepKind::Delete).await {
            assert!(jobs.swept(&id(), number).await.unwrap());
        }
    }
}

/// Somebody who makes the collection, one step at a time.
#[derive(Clone, Copy, Debug)]
enum Maker {
    /// In the first home.
    First,
    Void(u64),
    TakeBack(u64),
    Put,
    /// In the second one.
    Second,
    PutLent(u64),
    Done,
}

impl Maker {
    async fn step(self, homes: &Homes) -> Self {
        match self {
            Self::First => match homes.ask(0, Naming::Lent).await {
                Ok(Some(ticket)) => Self::Void(ticket),
                Ok(None) => Self::Put,
                Err(_) => Self::Done,
            },
            Self::Void(ticket) => match homes.ask(1, Naming::Void(ticket)).await {
                Ok(_) => Self::TakeBack(ticket),
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::Taken);
                    Self::Done
                }
            },
            Self::TakeBack(ticket) => {
                homes.ask(0, Naming::TakeBack(ticket)).await.unwrap();
                Self::Put
            }
            Self::Put => {
                let _ = homes.put(0, Expect::Nothing).await;
                Self::Done
            }
            Self::Second => match homes.ask(0, Naming::Lend).await {
                Ok(ticket) => Self::PutLent(ticket.unwrap()),
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::Taken);
                    Self::Done
                }
            },
            Self::PutLent(ticket) => {
                let _ = homes.put(1, Expect::Lent(ticket)).await;
                Self::Done
            }
            Self::Done => Self::Done,
        }
    }
}

/// Which maker takes a step; makers beyond these delete.
const MAKERS: usize = 6;

async fn homes() -> Homes {
    let labs = [
        Lab::at("2030-01-01T00:00:00Z"),
        Lab::at("2030-01-01T00:00:00Z"),
    ];
    Homes([labs[0].start().await, labs[1].start().await])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Makers of either home take their steps in any order and stop at any of them,
    /// while the collection is deleted now and then.
    #[test]
    fn a_name_is_never_in_both_homes(steps in prop::collection::vec(0..MAKERS + 1, 1..60)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let homes = homes().await;
            let mut makers: [Maker; MAKERS] =
                std::array::from_fn(|index| [Maker::First, Maker::Second][index % 2]);
            for step in steps {
                match makers.get_mut(step) {
                    Some(maker) => {
                        *maker = maker.step(&homes).await;
                        // Whoever is done begins again.
                        if matches!(maker, Maker::Done) {
                            *maker = [Maker::First, Maker::Second][step % 2];
                        }
                    }
                    None => {
                        homes.delete(0).await;
                        homes.delete(1).await;
                    }
                }
                let both = (homes.has(0).await, homes.has(1).await);
                assert_ne!(both, (true, true));
            }
            // Nobody has left anything behind that would be in the way.
            homes.delete(0).await;
            homes.delete(1).await;
            for (home, mut maker) in [(1, Maker::Second), (0, Maker::First)] {
                while !matches!(maker, Maker::Done) {
                    maker = maker.step(&homes).await;
                }
                assert!(homes.has(home).await);
                homes.delete(home).await;
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_lent_name_is_refused_and_a_void_ticket_makes_nothing() {
    let homes = homes().await;
    let first = homes.ask(0, Naming::Lend).await.unwrap().unwrap();
    let second = homes.ask(0, Naming::Lend).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(homes.put(0, Expect::Nothing).await, Err(ErrorKind::Taken));
    homes.ask(1, Naming::Void(second)).await.unwrap();
    for ticket in [first, second] {
        let late = homes.put(1, Expect::Lent(ticket)).await;
        assert_eq!(late, Err(ErrorKind::Taken));
    }
    // Only the ticket that counts is taken back.
    homes.ask(0, Naming::TakeBack(first)).await.unwrap();
    assert_eq!(homes.put(0, Expect::Nothing).await, Err(ErrorKind::Taken));
    homes.ask(0, Naming::TakeBack(second)).await.unwrap();
    homes.put(0, Expect::Nothing).await.unwrap();
    let lent = homes.ask(0, Naming::Lend).await;
    assert_eq!(lent, Err(ErrorKind::Taken));
}
