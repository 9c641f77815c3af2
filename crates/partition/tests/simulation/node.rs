//! One life of one node.

use std::sync::{Arc, Weak};
use std::time::Duration;

use steadfast_core::id::Owner;
use steadfast_partition::{
    Effect, Envelope, Handle, Message, Options, Performer, Router, Runtime, Services, Space,
};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::{Engine, Store};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::Jumping;
use crate::net::{Line, Net};
use crate::oracle::{Life, Oracle};
use crate::story::{Happen, Story};
use crate::wire::{Watched, Wire};

pub(crate) struct Node {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: Arc<Jumping>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) hostile: Arc<HostileEngine>,
    /// What was asked of it from outside; it ends with the node.
    tasks: JoinSet<()>,
}

/// What all lives share.
pub(crate) struct Ground {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) net: Arc<Net>,
    pub(crate) space: Space,
    pub(crate) began: Instant,
}

impl Node {
    /// Starts a node that dies after some steps.
    pub(crate) fn start(ground: &Ground, number: u32, life: Life, seed: u64, steps: u64) -> Self {
        let oracle = Arc::clone(&ground.oracle);
        let watched = Watched::new(Arc::clone(&ground.engine), oracle, life);
        let hostile = Arc::new(HostileEngine::new(
            Arc::new(watched),
            EngineFaults::all(),
            seed,
        ));
        let wire = Arc::new(Wire::new(hostile.clone(), seed ^ 1, steps));
        let clock = Arc::new(Jumping::new(ground.began));
        let owner = Owner {
            node: number,
            incarnation: u128::from(life),
        };
        let mut options = steadfast_storage::Options::new(owner);
        options.clock = clock.clone();
        options.background = false;
        // Small, so that rows are flushed and must be loaded again.
        options.log_target = 4 * 1024;
        options.row_cache = 0;
        let store = Arc::new(Store::start(wire.clone(), options));
        let router = Arc::new(Router::new(Arc::new(Line(Arc::clone(&ground.net)))));
        let performer = Perform {
            oracle: Arc::clone(&ground.oracle),
            router: Arc::downgrade(&router),
        };
        let options = Options {
            services: Services::new().with(Story),
            performer: Arc::new(performer),
            router: Arc::clone(&router),
            clock: clock.clone(),
        };
        ground.net.join(number, &router);
        let runtime = Runtime::new(store, ground.space.clone(), options);
        Self {
            runtime: Arc::new(runtime),
            clock,
            wire,
            hostile,
            tasks: JoinSet::new(),
        }
    }

    /// Has the node do something, for as long as it lives.
    pub(crate) fn ask<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        what: impl FnOnce(Arc<Runtime>) -> F,
    ) {
        let runtime = Arc::clone(&self.runtime);
        self.tasks.spawn(what(runtime));
    }

    pub(crate) fn handle(&self) -> Handle<Story> {
        self.runtime.handle()
    }

    /// No more faults.
    pub(crate) fn heal(&self) {
        self.wire.spare();
        self.hostile.stop_faults();
        self.clock.jump(0);
    }
}

/// Does work by telling the instance, after a while, that it is done.
struct Perform {
    oracle: Arc<Oracle>,
    router: Weak<Router>,
}

impl Performer for Perform {
    fn perform(&self, effect: Effect) {
        let op = u64::from_be_bytes(effect.body[..].try_into().unwrap());
        self.oracle.leaves("an effect", op);
        if effect.work.is_none() {
            return;
        }
        let router = Weak::clone(&self.router);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(op % 50)).await;
            let Some(router) = router.upgrade() else {
                return;
            };
            if let Some(door) = router.mailbox(effect.partition) {
                let done = Happen::Worked { op }.encode();
                door.post(Envelope::new(effect.from, done));
            }
        });
    }
}
