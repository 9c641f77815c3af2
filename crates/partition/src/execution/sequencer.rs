//! Sequences the commands of one partition.
//!
//! Synchronous: it never waits. Commands run one after the other, each as one staged
//! transaction. For what has to be waited for (rows, deliveries, durability) it emits
//! [`OwnerJob`]s, whose results come back as calls.
//!
//! If staged writes are rolled back, memory no longer matches the rows:
//! [`Sequencer::is_stale`] is set, and the owner loads the partition again.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::limits;
use steadfast_storage::Ledger;

use crate::error::{Error, ErrorKind};
use crate::execution::blocked_commands::BlockedCommands;
use crate::execution::effect::{Effect, Performer};
use crate::execution::gate::{Gate, GatedOutput};
use crate::execution::pending_effects::{CallId, Timer, due_of, timer_address};
use crate::execution::pinned_rows::{PinnedRows, RowAddress};
use crate::execution::turn::Services;
use crate::ingress::address::{Address, Envelope};
use crate::ingress::command::{Command, CommandOrigin, DeferredCall, Suspension, SuspensionResult};
use crate::ingress::control::{BatchReceipt, ControlSender};
use crate::ingress::message::MessagePayload;
use crate::ingress::space::Space;
use crate::ingress::transport::{MessageBatch, PartitionLink};
use crate::links::inbox::Inbox;
use crate::links::outbox::{DeliveryStep, Outbox};
use crate::metrics::{Metrics, add, raise, set};
use crate::owner::idle::FiredTimers;
use crate::timing::timers::Timers;

/// A job that the owner loop does for the sequencer.
pub(crate) enum OwnerJob {
    /// Read rows for a blocked command.
    Rows {
        lane: Address,
        rows: Vec<RowAddress>,
    },
    /// Read timers from this key on, once `after` is durable.
    Timers { from: Bytes, after: Lsn },
    /// Read timers from this key on ahead of the pages, once `after` is durable.
    TimersAhead { from: Bytes, after: Lsn },
    /// Read messages from this number on.
    Messages { to: Partition, from: u64 },
    /// Send a batch to its destination.
    Deliver { to: Partition, parcel: MessageBatch },
    /// Perform an effect.
    Perform(Effect),
}

pub(crate) struct Sequencer {
    pub(crate) ledger: Ledger,
    pub(crate) space: Arc<Space>,
    pub(crate) services: Arc<Services>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) performer: Arc<dyn Performer>,
    /// Sends control messages to this loop.
    pub(crate) control: ControlSender,
    /// The ledger's count of rollbacks when memory was loaded.
    pub(crate) rollbacks: u64,
    /// The last transaction that was staged here.
    pub(crate) staged: Lsn,
    /// The expected size of a transaction, in bytes.
    pub(crate) room: usize,
    pub(crate) now: Timestamp,
    /// Memory no longer matches the rows: it must be loaded again.
    pub(crate) is_stale: bool,
    pub(crate) blocked: BlockedCommands,
    pub(crate) pinned: PinnedRows,
    pub(crate) gate: Gate,
    pub(crate) timers: Timers,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    /// Links whose next message may be handled.
    pub(crate) open_links: VecDeque<PartitionLink>,
    /// Messages to this partition itself that are handled next.
    own: VecDeque<Command>,
    /// Callers that a later turn answers.
    pub(crate) late: HashMap<CallId, DeferredCall>,
    pub(crate) next_call: u64,
    /// Commands that wait while the log is full.
    pub(crate) stalled: VecDeque<Command>,
    pub(crate) jobs: Vec<OwnerJob>,
    /// Blocked instances whose rows are loaded.
    ready_instances: VecDeque<Address>,
    /// Destinations whose messages have become durable.
    postable: BTreeSet<Partition>,
    /// The timers that have fired, once a report was asked for.
    pub(crate) fired: Option<FiredTimers>,
}

impl Sequencer {
    pub(crate) fn new(
        ledger: Ledger,
        space: Arc<Space>,
        services: Arc<Services>,
        metrics: Arc<Metrics>,
        performer: Arc<dyn Performer>,
        control: ControlSender,
    ) -> Self {
        let link = PartitionLink {
            source: ledger.partition(),
            incarnation: space.incarnation,
        };
        Self {
            rollbacks: ledger.rollbacks(),
            staged: Lsn(0),
            room: 0,
            now: ledger.time(),
            is_stale: false,
            blocked: BlockedCommands::default(),
            pinned: PinnedRows::default(),
            gate: Gate::default(),
            timers: Timers::unloaded(services.unordered()),
            outbox: Outbox::new(link),
            inbox: Inbox::default(),
            open_links: VecDeque::new(),
            own: VecDeque::new(),
            late: HashMap::new(),
            next_call: 0,
            stalled: VecDeque::new(),
            jobs: Vec::new(),
            ready_instances: VecDeque::new(),
            postable: BTreeSet::new(),
            fired: None,
            ledger,
            space,
            services,
            metrics,
            performer,
            control,
        }
    }

    /// Restores the links from the tables, and requests the rows of open ones.
    pub(crate) fn restore(&mut self, sent: &[(Partition, u64)], received: &[(PartitionLink, u64)]) {
        for (to, last) in sent {
            self.outbox.restore(*to, *last);
            self.post(*to);
        }
        for (link, handled) in received {
            self.inbox.restore(*link, *handled);
        }
    }

    /// Reads the clock; once per round of the loop. Time never goes back, even if
    /// nothing was staged in the meantime: a timer that was due stays due.
    pub(crate) fn look_at_clock(&mut self) {
        self.now = self.now.max(self.ledger.time());
    }

    /// The jobs to do now.
    pub(crate) fn take_jobs(&mut self) -> Vec<OwnerJob> {
        if let Some(from) = self.timers.begin_page() {
            let after = self.staged;
            self.jobs.push(OwnerJob::Timers { from, after });
        }
        if let Some(from) = self.timers.begin_look(self.now) {
            let after = self.staged;
            self.jobs.push(OwnerJob::TimersAhead { from, after });
        }
        std::mem::take(&mut self.jobs)
    }

    /// Whether callers are accepted.
    pub(crate) fn has_room(&self) -> bool {
        let open = self.gate.len() + self.blocked.len() + self.stalled.len();
        open < limits::OPEN_CALLS && !self.is_stalled()
    }

    /// Whether nothing is in progress that is not stored as a row.
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate.len() == 0 && self.blocked.len() == 0 && self.stalled.is_empty()
    }

    /// Whether nothing happens before time passes or something arrives.
    pub(crate) fn is_idle(&self) -> bool {
        let is_due = |due: Timestamp| due <= self.now;
        self.is_quiet()
            && self.own.is_empty()
            && self.open_links.is_empty()
            && self.jobs.is_empty()
            && self.outbox.backlog() == 0
            && !self.timers.next_due().is_some_and(is_due)
    }

    /// Runs a command, or queues it behind its instance's blocked ones.
    pub(crate) fn accept(&mut self, command: Command) {
        match self.blocked.blocking(&command) {
            Some(lane) => self.blocked.join(lane, command),
            None => {
                self.settle(None, command);
            }
        }
    }

    /// Accepts commands of callers, some at a time; answers whether there are more.
    pub(crate) fn accept_some(
        &mut self,
        arrived: &mut VecDeque<Command>,
        is_over: &dyn Fn() -> bool,
    ) -> bool {
        let mut count = 0;
        while let Some(command) = arrived.pop_front() {
            self.accept(command);
            count += 1;
            if count % limits::TURN_LOOK == 0 && is_over() {
                break;
            }
        }
        !arrived.is_empty()
    }

    /// Receives messages of another partition.
    pub(crate) fn receive(&mut self, parcel: MessageBatch, receipt: BatchReceipt) {
        let link = parcel.link;
        let seen = self.inbox.take(parcel, receipt);
        add(&self.metrics.duplicates, seen as u64);
        self.acknowledge(link);
        self.open_links.push_back(link);
    }

    /// Handles received messages, some at a time; answers whether there are more.
    pub(crate) fn work_off(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        for count in 1..=limits::TURN_COMMANDS {
            if count % limits::TURN_LOOK == 0 && is_over() {
                return true;
            }
            if let Some(command) = self.next_own() {
                self.accept(command);
            } else if let Some(link) = self.open_links.pop_front() {
                self.handle_next(link);
            } else {
                return false;
            }
        }
        true
    }

    /// Fires timers that are due; answers whether there may be more.
    pub(crate) fn fire(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        for _ in 0..limits::TURN_COMMANDS / limits::TURN_LOOK {
            if !self.fire_some() {
                return false;
            }
            if is_over() {
                break;
            }
        }
        true
    }

    fn fire_some(&mut self) -> bool {
        let due = self.timers.take_due(self.now, limits::TURN_LOOK);
        let is_full = due.len() == limits::TURN_LOOK;
        for Timer { key, body } in due {
            let late = self.now.0.saturating_sub(due_of(&key).0).max(0) as u64;
            raise(&self.metrics.lateness_ms, late);
            match timer_address(&key) {
                Some(to) => {
                    let origin = CommandOrigin::Timer { key };
                    self.accept(Command::new(origin, to, MessagePayload::Bytes(body)));
                }
                None => self.timers.fired(&key),
            }
        }
        is_full
    }

    /// Runs commands again that wait for room in the log. While the partition is handed
    /// over, callers go to its next owner instead. On a rollback they stay for
    /// [`Self::dissolve`].
    pub(crate) fn retry_stalled(&mut self, is_draining: bool) {
        if self.stalled.is_empty() || self.is_stale {
            return;
        }
        let is_full = self.ledger.is_full();
        let partition = self.ledger.partition();
        for command in std::mem::take(&mut self.stalled) {
            if is_full && is_draining && command.is_refusable() {
                command
                    .origin
                    .refuse(&Error::new(ErrorKind::Draining { partition }));
            } else if is_full && command.waits_for_room() {
                self.stalled.push_back(command);
            } else {
                self.accept(command);
            }
        }
    }

    /// Whether a command that cannot be refused waits for room in the log; then the
    /// partition does nothing else.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.iter().any(|command| !command.is_refusable())
    }

    /// Rows for a blocked instance have been read.
    pub(crate) fn rows_loaded(&mut self, lane: &Address, rows: Vec<(RowAddress, Option<Bytes>)>) {
        for (row, value) in rows {
            self.pinned.loaded(&row, value);
        }
        self.ready_instances.push_back(lane.clone());
    }

    /// The suspended command of an instance has its result.
    pub(crate) fn returned(&mut self, lane: Address, number: u64, returned: SuspensionResult) {
        let first = self.blocked.first(&lane);
        // The suspended command may have been dropped.
        let is_meant = |command: &&mut Command| matches!(command.suspension, Suspension::Suspended(n) if n == number);
        if let Some(command) = first.filter(is_meant) {
            command.suspension = Suspension::Completed(returned);
            self.ready_instances.push_back(lane);
        }
    }

    /// Runs commands whose rows are loaded, and those behind them, some at a time;
    /// answers whether there are more.
    pub(crate) fn run_lanes(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        let mut count = 0;
        while let Some(lane) = self.ready_instances.pop_front() {
            if self.is_away(&lane) {
                continue;
            }
            while let Some(command) = self.blocked.front(&lane) {
                if !self.settle(Some(&lane), command) {
                    break;
                }
                for row in self.blocked.done(&lane) {
                    self.pinned.release(&row);
                }
                count += 1;
                if count % limits::TURN_LOOK == 0 && is_over() {
                    if self.blocked.first(&lane).is_some() {
                        self.ready_instances.push_front(lane);
                    }
                    return !self.ready_instances.is_empty();
                }
            }
        }
        false
    }

    /// Whether an instance is suspended on code outside the loop.
    fn is_away(&mut self, lane: &Address) -> bool {
        let first = self.blocked.first(lane);
        first.is_some_and(|command| matches!(command.suspension, Suspension::Suspended(_)))
    }

    /// A page of timers has been read.
    pub(crate) fn timers_loaded(&mut self, rows: Vec<Timer>, next: Option<Bytes>) {
        self.timers.page(rows, next);
    }

    /// Timers ahead of the pages have been read.
    pub(crate) fn timers_looked(&mut self, rows: Vec<Timer>, next: Option<Bytes>) {
        self.timers.looked(rows, next);
    }

    /// Rows of messages have been read.
    pub(crate) fn messages_loaded(&mut self, to: Partition, rows: Vec<(u64, Bytes)>, last: bool) {
        self.outbox.loaded(to, rows, last);
        self.post(to);
    }

    /// A destination has handled everything up to a number.
    pub(crate) fn delivered(&mut self, to: Partition, handled: u64) {
        self.outbox.arrived(to, handled);
        self.post(to);
        // As many as a batch holds, so that they do not accumulate.
        for _ in 0..limits::PARCEL_MESSAGES / limits::SWEPT_ROWS {
            if self.outbox.is_littered() {
                self.sweep();
            }
        }
    }

    /// A batch has not arrived: it is sent again.
    pub(crate) fn undelivered(&mut self, to: Partition) {
        self.outbox.came_back(to);
        self.post(to);
    }

    /// Releases outputs that are durable now, some at a time; answers whether there are
    /// more.
    pub(crate) fn release(&mut self, durable: Lsn, is_over: &dyn Fn() -> bool) -> bool {
        // The durable LSN was read before: if nothing was rolled back until now, then
        // nothing up to it was.
        if self.ledger.rollbacks() != self.rollbacks {
            self.is_stale = true;
            return false;
        }
        let (mut count, mut has_more) = (0, false);
        while !has_more && let Some(release) = self.gate.pass(durable) {
            self.let_go(release);
            count += 1;
            has_more = count % limits::TURN_LOOK == 0 && is_over();
        }
        // Only now, so that one batch holds all of them.
        for to in std::mem::take(&mut self.postable) {
            self.post(to);
        }
        has_more
    }

    /// Updates the gauges.
    pub(crate) fn measure(&self) {
        set(&self.metrics.gated, self.gate.len() as u64);
        let waiting = self.blocked.len() + self.stalled.len();
        set(&self.metrics.waiting, waiting as u64);
        set(&self.metrics.backlog, self.outbox.backlog());
        set(&self.metrics.near_timers, self.timers.len() as u64);
    }

    /// Ends this sequencer. Durable outputs leave; everything else that waits fails
    /// with `error`. Answers the callers' commands that never ran, for a successor.
    pub(crate) fn dissolve(&mut self, durable: Lsn, error: &Error) -> Vec<Command> {
        for gated in self.gate.drain() {
            let is_durable = gated.lsn <= durable && !self.ledger.is_rolled_back(gated.lsn);
            if is_durable {
                self.let_go(gated.value)
            } else {
                gated.value.fail(error)
            }
        }
        for (_, waiting) in self.late.drain() {
            let _ = waiting.caller.reply.send(Err(error.clone()));
        }
        let mut rest: Vec<_> = std::mem::take(&mut self.stalled).into();
        rest.extend(self.blocked.drain());
        rest.retain(Command::is_refusable);
        rest
    }

    fn let_go(&mut self, release: GatedOutput) {
        // The receiver may have stopped waiting.
        match release {
            GatedOutput::Reply(to, reply) => drop(to.send(reply)),
            GatedOutput::Committed(to, lsn) => drop(to.send(Ok(lsn))),
            GatedOutput::Acknowledge(receipt, number) => receipt.send(Ok(number)),
            GatedOutput::Perform(effect) => self.jobs.push(OwnerJob::Perform(effect)),
            GatedOutput::Send(to, number) => {
                self.outbox.durable(to, number);
                self.postable.insert(to);
            }
        }
    }

    /// Sends the durable messages to a destination.
    fn post(&mut self, to: Partition) {
        let job = match self.outbox.next(to) {
            DeliveryStep::Nothing => return,
            DeliveryStep::Deliver(parcel) => OwnerJob::Deliver { to, parcel },
            DeliveryStep::Load(from) => OwnerJob::Messages { to, from },
        };
        self.jobs.push(job);
    }

    fn next_own(&mut self) -> Option<Command> {
        if self.own.is_empty() {
            let own = self.outbox.take_own();
            let open = |(number, message)| open(CommandOrigin::Own { number }, message);
            self.own.extend(own.into_iter().map(open));
            // Memory holds the front only; the rest is read when it is needed.
            self.post(self.ledger.partition());
        }
        self.own.pop_front()
    }

    fn handle_next(&mut self, link: PartitionLink) {
        if let Some((number, message)) = self.inbox.next(link) {
            let origin = CommandOrigin::Link { link, number };
            self.accept(open(origin, message));
        }
    }

    /// Acknowledges the messages of a link, once their effects are durable.
    pub(crate) fn acknowledge(&mut self, link: PartitionLink) {
        for (lsn, number, reply) in self.inbox.acknowledgements(link) {
            self.gate.hold(lsn, GatedOutput::Acknowledge(reply, number));
        }
    }
}

/// The command in a message. One that cannot be decoded is addressed to no service, so
/// it becomes a dead letter.
fn open(origin: CommandOrigin, message: Bytes) -> Command {
    match Envelope::decode(message.clone()) {
        Ok(envelope) => Command::new(origin, envelope.to, MessagePayload::Bytes(envelope.body)),
        Err(_) => Command::new(
            origin,
            Address::unassigned(),
            MessagePayload::Bytes(message),
        ),
    }
}
