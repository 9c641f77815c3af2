//! Messages between nodes about work and results.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_collections::schema::{Record, WriteVersion, encode_value};

use super::counts::{TaskHubCounts, WorkCounts};
use crate::entity::Outcome;
use crate::event::InstanceEvent;
use crate::failure::FailureDetails;
use crate::rows;
use crate::work::{
    ActivityWork, BatchResult, BatchWork, EntityAction, OrchestrationSpan, TurnResult, TurnWork,
    WorkDelivery, WorkFilter, WorkFilters, WorkPayload, WorkerOptions,
};

/// A message between nodes about workers.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum WorkerMessage {
    /// A worker of the sending node has room: return work, or wait for some.
    #[n(0)]
    Pull {
        #[n(0)]
        hub: String,
        /// Identifies the worker.
        #[n(1)]
        seat: u64,
        #[n(2)]
        terms: PackedOptions,
    },
    /// A worker has disconnected.
    #[n(1)]
    Gone {
        #[n(0)]
        seat: u64,
    },
    /// A worker abandons an item.
    #[n(2)]
    Abandon {
        #[n(0)]
        hub: String,
        #[n(1)]
        token: String,
    },
    /// Return the task hubs with workers or work items, by name.
    #[n(3)]
    ListHubs {
        /// Only names after this one.
        #[n(0)]
        after: String,
        #[n(1)]
        limit: u32,
    },
    /// Return the workers that are connected to the receiver.
    #[n(4)]
    ListWorkers {
        #[n(0)]
        hub: String,
        #[n(1)]
        after: u64,
        #[n(2)]
        limit: u32,
    },
}

/// A task hub with workers or work items.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct HubRecord {
    #[n(0)]
    pub(crate) name: String,
    #[n(1)]
    pub(crate) counts: TaskHubCounts,
}

/// Task hubs by name.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct HubList {
    #[n(0)]
    pub(crate) hubs: Vec<HubRecord>,
}

/// A worker that is connected to this node.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct WorkerRecord {
    /// Its number among the connections of the queue; increases with every connection.
    #[n(0)]
    pub(crate) number: u64,
    /// With the limits in effect.
    #[n(1)]
    pub(crate) options: PackedOptions,
    #[n(2)]
    pub(crate) address: Option<String>,
    /// When it connected, in milliseconds since 1970.
    #[n(3)]
    pub(crate) since: i64,
    /// Items of this node's queue that it has.
    #[n(4)]
    pub(crate) in_progress: WorkCounts,
    /// Its ids at other nodes.
    #[n(5)]
    pub(crate) seats: Vec<u64>,
}

/// Items of this node's queue that a worker of another node has.
#[derive(Record, Clone, Copy, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct GuestRecord {
    #[n(0)]
    pub(crate) seat: u64,
    #[n(1)]
    pub(crate) in_progress: WorkCounts,
}

/// A page of the workers of one node, and all guests of its queue that have work.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct WorkerList {
    #[n(0)]
    pub(crate) workers: Vec<WorkerRecord>,
    #[n(1)]
    pub(crate) has_more: bool,
    #[n(2)]
    pub(crate) guests: Vec<GuestRecord>,
    /// All workers and items of the node.
    #[n(3)]
    pub(crate) counts: TaskHubCounts,
}

/// The options of a worker.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct PackedOptions {
    #[n(0)]
    name: String,
    #[n(1)]
    most: Vec<u32>,
    #[n(2)]
    filters: Option<PackedFilters>,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct PackedFilters {
    #[n(0)]
    orchestrations: Vec<PackedFilter>,
    #[n(1)]
    activities: Vec<PackedFilter>,
    #[n(2)]
    entities: Vec<String>,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct PackedFilter {
    #[n(0)]
    name: String,
    #[n(1)]
    versions: Vec<String>,
}

impl PackedOptions {
    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let Some(filters) = &self.filters else {
            return self.name.len();
        };
        let lists = filters.orchestrations.iter().chain(&filters.activities);
        let names = lists.flat_map(|filter| filter.versions.iter().chain([&filter.name]));
        let names = names.chain(&filters.entities);
        self.name.len() + names.map(String::len).sum::<usize>()
    }
}

impl From<&WorkerOptions> for PackedOptions {
    fn from(terms: &WorkerOptions) -> Self {
        let named = |filters: &[WorkFilter]| {
            let named = |filter: &WorkFilter| PackedFilter {
                name: filter.name.clone(),
                versions: filter.versions.clone(),
            };
            filters.iter().map(named).collect()
        };
        let most = [terms.turns, terms.activities, terms.batches];
        Self {
            name: terms.name.clone(),
            most: most.iter().map(|most| *most as u32).collect(),
            filters: terms.filters.as_ref().map(|filters| PackedFilters {
                orchestrations: named(&filters.orchestrations),
                activities: named(&filters.activities),
                entities: filters.entities.iter().cloned().collect(),
            }),
        }
    }
}

impl From<PackedOptions> for WorkerOptions {
    fn from(wanted: PackedOptions) -> Self {
        let filters = |named: Vec<PackedFilter>| {
            let filter = |named: PackedFilter| WorkFilter {
                name: named.name,
                versions: named.versions,
            };
            named.into_iter().map(filter).collect()
        };
        let most = |index: usize| wanted.most.get(index).copied().unwrap_or(1) as usize;
        Self {
            name: wanted.name.clone(),
            address: None,
            turns: most(0),
            activities: most(1),
            batches: most(2),
            filters: wanted.filters.map(|known| WorkFilters {
                orchestrations: filters(known.orchestrations),
                activities: filters(known.activities),
                entities: known.entities.into_iter().collect::<BTreeSet<_>>(),
            }),
            caches_instances: false,
        }
    }
}

/// An item for a worker of another node.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct PackedItem {
    #[n(0)]
    token: String,
    #[n(1)]
    work: PackedWork,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum PackedWork {
    #[n(0)]
    Turn(PackedTurn),
    #[n(1)]
    Activity(ActivityWork),
    #[n(2)]
    Batch(BatchWork),
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
struct PackedTurn {
    #[n(0)]
    instance: String,
    #[n(1)]
    execution: String,
    #[n(2)]
    past: Vec<Vec<InstanceEvent>>,
    #[n(3)]
    past_bytes: u64,
    #[n(4)]
    new: Vec<InstanceEvent>,
    #[n(5)]
    span: Option<OrchestrationSpan>,
    #[n(6)]
    is_whole: bool,
}

/// Encodes an item; `None` if it is too large for a message.
pub(crate) fn pack(item: WorkDelivery) -> Option<Bytes> {
    let work = match item.work {
        WorkPayload::Turn(turn) => {
            let TurnWork {
                instance,
                execution,
                past,
                past_bytes,
                new,
                span,
                is_whole,
                // Workers of other nodes always get the history.
                remembered: _,
            } = *turn;
            PackedWork::Turn(PackedTurn {
                instance,
                execution,
                past: past.iter().map(|turn| (**turn).clone()).collect(),
                past_bytes,
                new,
                span,
                is_whole,
            })
        }
        WorkPayload::Activity(work) => PackedWork::Activity(*work),
        WorkPayload::Batch(work) => PackedWork::Batch(*work),
    };
    let packed = PackedItem {
        token: item.token,
        work,
    };
    let bytes = encode_value(&packed, WriteVersion::LATEST).ok()?;
    Some(bytes.into())
}

/// Decodes an item.
pub(crate) fn unpack(bytes: &[u8]) -> Option<WorkDelivery> {
    let packed: PackedItem = rows::decode(bytes).ok()?;
    let work = match packed.work {
        PackedWork::Turn(turn) => WorkPayload::Turn(Box::new(TurnWork {
            instance: turn.instance,
            execution: turn.execution,
            past: turn.past.into_iter().map(Arc::new).collect(),
            past_bytes: turn.past_bytes,
            new: turn.new,
            span: turn.span,
            is_whole: turn.is_whole,
            remembered: None,
        })),
        PackedWork::Activity(work) => WorkPayload::Activity(Box::new(work)),
        PackedWork::Batch(work) => WorkPayload::Batch(Box::new(work)),
    };
    Some(WorkDelivery {
        token: packed.token,
        work,
    })
}

/// A result for the owner of its instance.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum RemoteResult {
    #[n(0)]
    Turn(TurnResult),
    #[n(1)]
    Chunk {
        #[n(0)]
        index: u32,
        #[n(1)]
        part: TurnResult,
    },
    #[n(2)]
    Activity {
        #[n(0)]
        id: i32,
        #[n(1)]
        outcome: Outcome,
        /// Messages to other services, as envelopes.
        #[record(default)]
        #[n(2)]
        messages: Vec<Vec<u8>>,
    },
    #[n(3)]
    Batch(PackedBatch),
    /// The worker was sent the first events or operations only.
    #[n(4)]
    Cut {
        #[n(0)]
        count: u64,
    },
    /// The result of a batch does not fit into one commit.
    #[n(5)]
    TooLarge,
}

/// The result of a batch.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct PackedBatch {
    #[n(0)]
    results: Vec<Outcome>,
    #[n(1)]
    actions: Vec<EntityAction>,
    #[n(2)]
    state: Option<String>,
    #[n(3)]
    failure: Option<FailureDetails>,
    #[n(4)]
    needs_state: bool,
}

impl From<BatchResult> for PackedBatch {
    fn from(result: BatchResult) -> Self {
        Self {
            results: result.results.into_iter().map(Outcome::from).collect(),
            actions: result.actions,
            state: result.state,
            failure: result.failure,
            needs_state: result.needs_state,
        }
    }
}

impl From<PackedBatch> for BatchResult {
    fn from(packed: PackedBatch) -> Self {
        let results = packed.results.into_iter();
        Self {
            results: results.map(Outcome::into_result).collect(),
            actions: packed.actions,
            state: packed.state,
            failure: packed.failure,
            needs_state: packed.needs_state,
        }
    }
}
