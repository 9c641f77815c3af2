//! Assignment: what a node acquires and hands over.
//!
//! A node decides nothing alone: a free partition is acquired by the engine's
//! compare-and-swap, and one of a living node is requested from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_core::limits;

use super::isolation::{self, ReachabilityReport};
use super::member_record::State;
use super::membership::Inner;
use super::pending_moves::PendingMoves;
use super::plan::{Acquisition, LiveNode, PlanInput, plan};
use super::request::{self, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::owner::runtime::Runtime;

impl Inner {
    /// Partitions without an owner.
    pub(super) fn idle(&self, runtime: &Runtime) -> Vec<u16> {
        let roster = &self.setup.members;
        let all = runtime.space().all();
        let idle = all.filter(|partition| {
            runtime.router().mailbox(*partition).is_none()
                && roster
                    .owner(*partition)
                    .is_none_or(|(peer, _)| peer.owner == self.owner)
        });
        idle.map(Partition::index).collect()
    }

    /// Starts the acquisitions of the plan.
    pub(super) fn act(self: &Arc<Self>, runtime: &Arc<Runtime>, work: &mut PendingMoves) {
        let idle = self.idle(runtime);
        let now = self.now();
        work.note_idle(&idle, now);
        if *self.state.lock() != State::Up || *self.is_superseded.lock() || !self.lease.holds() {
            return;
        }
        if self.is_isolated() {
            self.give_up(runtime, work, now);
            return;
        }
        let living = self.living();
        let scene = PlanInput {
            me: self.owner,
            living: &living,
            partitions: runtime.space().partitions,
            taking: &work.taking,
            idle: &work.idle,
            now,
            lease: self.setup.lease,
        };
        let takes = plan(&scene, &mut |bound| fastrand::u32(..bound));
        for take in takes {
            let (Acquisition::Free(index) | Acquisition::From(index, ..)) = take;
            if work.moves.len() >= limits::NODE_MOVES {
                break;
            }
            if !work.may_try(index, now) {
                continue;
            }
            work.taking.insert(index);
            let me = Arc::clone(self);
            work.moves
                .spawn(async move { (index, me.take(take).await) });
        }
    }

    /// Whether most others do not reach this node.
    fn is_isolated(&self) -> bool {
        let was_so = self.is_isolated.load(Ordering::Relaxed);
        let mut living = self.setup.members.reachability_reports(self.owner);
        living.push(ReachabilityReport {
            owner: self.owner,
            is_isolated: was_so,
            missed: self.probes.missed(),
        });
        let is_so = isolation::is_isolated(self.owner, &living);
        self.is_isolated.store(is_so, Ordering::Relaxed);
        if is_so != was_so {
            self.bell.notify_one();
        }
        match (was_so, is_so) {
            (false, true) => tracing::error!(
                event = "cluster.isolated",
                "most other nodes do not reach this node; it hands over its partitions"
            ),
            (true, false) => tracing::info!(event = "cluster.reached_again"),
            _ => {}
        }
        is_so
    }

    /// Hands over all partitions, so that reachable nodes can acquire them.
    fn give_up(self: &Arc<Self>, runtime: &Arc<Runtime>, work: &mut PendingMoves, now: Duration) {
        for (index, _) in self.serves() {
            if work.moves.len() >= limits::NODE_MOVES {
                break;
            }
            if !work.may_try(index, now) {
                continue;
            }
            work.taking.insert(index);
            let (me, runtime) = (Arc::clone(self), Arc::clone(runtime));
            let partition = Partition::new(runtime.space().number, index);
            work.moves.spawn(async move {
                let given = runtime.hand_over(partition, limits::GIVE_TIME).await;
                match &given {
                    Ok(_) => drop(me.counters.given.fetch_add(1, Ordering::Relaxed)),
                    // The engine still names this node as the owner: the partition is
                    // opened again, and handed over later.
                    Err(error) if error.storage().is_some() => {
                        drop(runtime.serve(partition).await);
                    }
                    Err(_) => {}
                }
                (index, given.map(drop))
            });
        }
    }

    /// All living nodes; this one as it is, not as its record says.
    fn living(&self) -> Vec<LiveNode> {
        let roster = &self.setup.members;
        let all = roster.all().into_iter();
        let others = all.filter(|seen| !roster.is_dead(seen) && seen.member.owner != self.owner);
        let mut living: Vec<_> = others
            .filter(|seen| seen.member.identity.name != self.setup.identity.name)
            .map(|seen| LiveNode {
                owner: seen.member.owner,
                is_leaving: seen.member.state == State::Leaving || seen.member.is_isolated,
                serves: seen.member.serves,
            })
            .collect();
        living.push(LiveNode {
            owner: self.owner,
            is_leaving: *self.state.lock() == State::Leaving,
            serves: self.serves(),
        });
        living
    }

    /// Acquires a partition, from its owner if there is one.
    pub(super) async fn take_now(&self, partition: Partition) -> Result<()> {
        let index = partition.index();
        let owner = self.setup.members.owner(partition);
        let take = match owner.filter(|(peer, _)| peer.owner != self.owner) {
            Some((peer, epoch)) => Acquisition::From(index, peer.owner, epoch),
            None => Acquisition::Free(index),
        };
        self.take(take).await
    }

    async fn take(&self, take: Acquisition) -> Result<()> {
        let runtime = self.runtime.upgrade();
        let runtime = runtime.ok_or_else(request::malformed)?;
        let (Acquisition::Free(index) | Acquisition::From(index, ..)) = take;
        let partition = Partition::new(runtime.space().number, index);
        if self.is_isolated.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Draining { partition }));
        }
        if let Acquisition::From(_, from, epoch) = take {
            let peer = self.setup.members.peer(from);
            let peer = peer.ok_or_else(|| Error::new(ErrorKind::Unreachable { partition }))?;
            let request = Request::HandOver(partition, epoch, self.owner).encode();
            let limit = limits::GIVE_TIME * 2;
            let sent = self.setup.network.send(&peer, request, limit).await;
            let unreachable = |_| Error::new(ErrorKind::Unreachable { partition });
            request::decode_answer(sent.map_err(unreachable)?)?;
        }
        let taken = runtime.serve(partition).await;
        match &taken {
            Ok(()) => {
                self.counters.taken.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(event = "cluster.taken", %partition);
            }
            Err(error) => tracing::debug!(event = "cluster.not_taken", %partition, %error),
        }
        taken
    }

    pub(super) async fn answer(&self, request: Bytes) -> Result<Bytes> {
        let runtime = self.runtime.upgrade();
        let runtime = runtime.ok_or_else(request::malformed)?;
        match Request::decode(request).map_err(|_| request::malformed())? {
            Request::HandOver(partition, epoch, to) => {
                self.give(&runtime, partition, epoch, to).await?;
                Ok(Bytes::new())
            }
            Request::Take(partition) => {
                self.take_now(partition).await?;
                Ok(Bytes::new())
            }
            Request::Probe => Ok(Bytes::new()),
            Request::NodeMessage(kind, body) => {
                let listener = self.listeners.read().get(&kind).cloned();
                let listener = listener.ok_or_else(|| Error::new(ErrorKind::NoService { kind }))?;
                listener.handle(body).await
            }
            request => request::serve(runtime.router(), request).await,
        }
    }

    /// Hands a partition over to a node that requests it, if its epoch is current.
    async fn give(
        &self,
        runtime: &Runtime,
        partition: Partition,
        epoch: Epoch,
        to: Owner,
    ) -> Result<()> {
        let not_ours = || Error::new(ErrorKind::NotOwner { partition });
        let door = runtime.router().mailbox(partition).ok_or_else(not_ours)?;
        if door.ledger().epoch() != epoch || self.setup.members.peer(to).is_none() {
            return Err(not_ours());
        }
        let given = runtime.hand_over_detached(partition, limits::GIVE_TIME);
        given.await?;
        self.counters.given.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(event = "cluster.given", %partition, to = to.node);
        Ok(())
    }
}
