//! Who does what services want done outside.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use steadfast_core::id::Partition;
use steadfast_partition::{Effect, Idle, Kind, Performer, Runtime};

/// Makes a performer, once the runtime is there for it to call.
pub(super) type Maker = Box<dyn FnOnce(&Runtime) -> Arc<dyn Performer> + Send>;

/// Performers, by the kind of the instance that wants something done.
///
/// A performer tells its service what came of an effect, so it needs the runtime,
/// and the runtime needs its performer. The knot is untied here: performers come
/// after the runtime, and before its first partition.
#[derive(Default)]
pub(super) struct Performers {
    by_kind: OnceLock<BTreeMap<Kind, Arc<dyn Performer>>>,
}

impl Performers {
    /// Makes them all; without effect the second time.
    pub(super) fn make(&self, makers: BTreeMap<Kind, Maker>, runtime: &Runtime) {
        let made = makers.into_iter();
        let made = made.map(|(kind, make)| (kind, make(runtime)));
        let _ = self.by_kind.set(made.collect());
    }
}

impl Performer for Performers {
    fn perform(&self, effect: Effect) {
        let performer = self
            .by_kind
            .get()
            .and_then(|all| all.get(&effect.from.kind));
        match performer {
            Some(performer) => performer.perform(effect),
            None => Idle.perform(effect),
        }
    }

    fn parted(&self, partition: Partition) {
        for performer in self.by_kind.get().into_iter().flat_map(|all| all.values()) {
            performer.parted(partition);
        }
    }

    fn helper(&self, kind: Kind) -> Option<&(dyn Any + Send + Sync)> {
        self.by_kind.get()?.get(&kind)?.helper(kind)
    }
}
