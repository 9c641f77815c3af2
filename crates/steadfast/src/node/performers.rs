//! Performers of the external effects of services.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use steadfast_core::id::Partition;
use steadfast_partition::{Effect, NoopPerformer, Performer, Runtime, ServiceKind};

/// Creates a performer, once the runtime that it calls exists.
pub(super) type PerformerFactory = Box<dyn FnOnce(&Runtime) -> Arc<dyn Performer> + Send>;

/// Performers by the kind of the instance that requests the effect.
///
/// A performer reports the result of an effect to its service, so it needs the runtime,
/// and the runtime needs its performer. To break the cycle, performers are created after
/// the runtime and before its first partition.
#[derive(Default)]
pub(super) struct Performers {
    by_kind: OnceLock<BTreeMap<ServiceKind, Arc<dyn Performer>>>,
}

impl Performers {
    /// Creates all performers; a second call has no effect.
    pub(super) fn make(&self, makers: BTreeMap<ServiceKind, PerformerFactory>, runtime: &Runtime) {
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
            None => NoopPerformer.perform(effect),
        }
    }

    fn partition_closed(&self, partition: Partition) {
        for performer in self.by_kind.get().into_iter().flat_map(|all| all.values()) {
            performer.partition_closed(partition);
        }
    }

    fn helper(&self, kind: ServiceKind) -> Option<&(dyn Any + Send + Sync)> {
        self.by_kind.get()?.get(&kind)?.helper(kind)
    }
}
