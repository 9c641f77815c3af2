//! Names that two homes share: none is used twice.

use proptest::prelude::*;
use steadfast_jobs::{
    CollectionDraft, CollectionId, ErrorKind, NameRequest, Precondition, SweepKind,
};

use crate::lab::{Lab, Node};

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

    async fn ask(&self, home: usize, naming: NameRequest) -> Result<u64, ErrorKind> {
        let said = self.0[home].jobs.name(&id(), naming).await;
        said.map_err(|error| error.kind())
    }

    async fn put(&self, home: usize, expect: Precondition) -> Result<(), ErrorKind> {
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

/// A creator of the collection, one step at a time.
#[derive(Clone, Copy, Debug)]
enum Maker {
    /// In the first home.
    First,
    Void(u64),
    /// In the second one.
    Second,
    Draw(u64),
    Put(usize, u64),
    Done,
}

impl Maker {
    async fn step(self, homes: &Homes) -> Self {
        let said = match self {
            Self::First => {
                let drawn = homes.ask(0, NameRequest::Issue { above: 0 }).await;
                drawn.map(Self::Void)
            }
            Self::Void(up_to) => {
                let void = homes.ask(1, NameRequest::Void { up_to }).await;
                void.map(|_| Self::Put(0, up_to))
            }
            Self::Second => homes
                .ask(1, NameRequest::Void { up_to: 0 })
                .await
                .map(Self::Draw),
            Self::Draw(above) => {
                let drawn = homes.ask(0, NameRequest::Issue { above }).await;
                drawn.map(|ticket| Self::Put(1, ticket))
            }
            Self::Put(home, ticket) => {
                let put = homes.put(home, Precondition::Ticket(ticket)).await;
                put.map(|()| Self::Done)
            }
            Self::Done => Ok(Self::Done),
        };
        said.unwrap_or_else(|kind| {
            assert!(
                matches!(kind, ErrorKind::Taken | ErrorKind::Changed),
                "{kind:?}"
            );
            Self::Done
        })
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
    fn a_name_is_never_in_both_homes(steps in prop::collection::vec((0..MAKERS + 1, any::<bool>()), 1..60)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let homes = homes().await;
            let mut makers: [Maker; MAKERS] =
                std::array::from_fn(|index| [Maker::First, Maker::Second][index % 2]);
            for (step, is_repeated) in steps {
                match makers.get_mut(step) {
                    Some(maker) => {
                        // A step may be taken twice: its answer was lost.
                        if is_repeated {
                            maker.step(&homes).await;
                        }
                        *maker = maker.step(&homes).await;
                        // A finished creator starts again.
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
            // No leftover ticket prevents a new creation.
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
async fn a_ticket_that_does_not_count_makes_nothing() {
    let homes = homes().await;
    let mut drawn = Vec::new();
    for _ in 0..2 {
        drawn.push(homes.ask(0, NameRequest::Issue { above: 0 }).await.unwrap());
    }
    assert!(drawn.is_sorted_by(|one, other| one < other));
    let [first, second] = drawn[..] else { panic!() };
    // It is not the last one.
    let late = homes.put(0, Precondition::Ticket(first)).await;
    assert_eq!(late, Err(ErrorKind::Taken));
    let void = homes.ask(1, NameRequest::Void { up_to: second }).await;
    assert_eq!(void, Ok(second));
    for ticket in [first, second] {
        let late = homes.put(1, Precondition::Ticket(ticket)).await;
        assert_eq!(late, Err(ErrorKind::Taken));
    }
    homes.put(0, Precondition::Ticket(second)).await.unwrap();
    let late = homes.ask(0, NameRequest::Issue { above: 0 }).await;
    assert_eq!(late, Err(ErrorKind::Taken));
    // A first home that has forgotten its tickets draws above what is void.
    homes.delete(0).await;
    let far = second + 1_000_000;
    assert_eq!(
        homes.ask(1, NameRequest::Void { up_to: far }).await,
        Ok(far)
    );
    let void = homes.ask(1, NameRequest::Void { up_to: 0 }).await.unwrap();
    let ticket = homes
        .ask(0, NameRequest::Issue { above: void })
        .await
        .unwrap();
    homes.put(1, Precondition::Ticket(ticket)).await.unwrap();
    let late = homes.ask(1, NameRequest::Void { up_to: ticket }).await;
    assert_eq!(late, Err(ErrorKind::Taken));
}
