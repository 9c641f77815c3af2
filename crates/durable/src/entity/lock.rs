//! Locks on entities.
//!
//! A lock request visits its entities in one global order, so two requests never
//! deadlock. A cancellation follows the same path behind the request and cannot overtake
//! it: a cancelled request never leaves a lock behind.

use steadfast_partition::{Address, Turn, TurnError};

use super::record::{LoadedEntity, LockHolder, MAIN, QueueRecord};
use crate::command::{Command, ExternalMessage, LockCommand, Reply};
use crate::event::EventKind;

/// Requests the lock.
pub(crate) fn lock(
    turn: &mut Turn<'_>,
    to: &Address,
    wish: &LockCommand,
) -> Result<Reply, TurnError> {
    let mut entity = LoadedEntity::find(turn, to)?;
    if entity.row.is_at_rest() {
        entity.give(wish.clone());
    } else {
        entity.queue(MAIN, &QueueRecord::Lock(wish.clone()));
        entity.settle()?;
    }
    entity.save();
    Ok(Reply::Done)
}

/// Releases the lock.
pub(crate) fn unlock(turn: &mut Turn<'_>, to: &Address, section: &str) -> Result<Reply, TurnError> {
    let mut entity = LoadedEntity::find(turn, to)?;
    if !entity.let_go(section) {
        return Ok(Reply::Ignored);
    }
    entity.settle()?;
    entity.save();
    Ok(Reply::Done)
}

/// Cancels a lock request, wherever it is on its path.
pub(crate) fn release(
    turn: &mut Turn<'_>,
    to: &Address,
    section: &str,
    set: &[String],
    position: u32,
) -> Result<Reply, TurnError> {
    let mut entity = LoadedEntity::find(turn, to)?;
    let was_waiting = entity.withdraw(section)?;
    let was_held = entity.let_go(section);
    // A request that was still waiting here has not reached the next entity.
    if !was_waiting && let Some(next) = set.get(position as usize + 1) {
        let ask = Command::Release {
            section: section.to_owned(),
            set: set.to_vec(),
            position: position + 1,
        };
        entity.send(next, &ask);
    }
    if was_waiting || was_held {
        entity.settle()?;
        entity.save();
    }
    Ok(Reply::Done)
}

impl LoadedEntity<'_, '_> {
    fn let_go(&mut self, section: &str) -> bool {
        let is_held = |held: &LockHolder| held.section == section;
        if self.row.lock_holder.as_ref().is_some_and(is_held) {
            self.row.lock_holder.take().is_some()
        } else {
            false
        }
    }

    /// Removes a waiting lock request.
    fn withdraw(&mut self, section: &str) -> Result<bool, TurnError> {
        for number in self.row.lock_requests.clone() {
            let Some(QueueRecord::Lock(wish)) = self.waiting(number)? else {
                continue;
            };
            if wish.section == section {
                self.remove(MAIN, number);
                self.row.lock_requests.retain(|other| *other != number);
                self.row.gaps.push(number);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Advances the queue: grants lock requests at its head, and requests a worker when
    /// there is an operation to run.
    pub(crate) fn settle(&mut self) -> Result<(), TurnError> {
        while !self.row.is_open {
            if self.row.front < self.row.front_end {
                self.open();
                break;
            }
            if self.row.lock_holder.is_some() || self.row.main == self.row.main_end {
                break;
            }
            let head = self.row.main;
            if self.row.lock_requests.first() == Some(&head) {
                self.grant(head)?;
            } else if self.row.gaps.contains(&head) {
                self.advance(head + 1);
            } else {
                self.open();
            }
        }
        Ok(())
    }

    /// Grants the lock request at the head of the main lane.
    fn grant(&mut self, head: u64) -> Result<(), TurnError> {
        let queued = self.waiting(head)?;
        self.remove(MAIN, head);
        self.row.lock_requests.remove(0);
        self.advance(head + 1);
        if let Some(QueueRecord::Lock(wish)) = queued {
            self.give(wish);
        }
        Ok(())
    }

    /// Grants the lock, and sends the request to the next entity or the grant to the
    /// orchestration.
    fn give(&mut self, wish: LockCommand) {
        self.row.lock_holder = Some(LockHolder {
            section: wish.section.clone(),
            instance: wish.instance.clone(),
            execution: wish.execution.clone(),
            since: self.turn.time(),
        });
        let next = wish.position as usize + 1;
        match wish.set.get(next).cloned() {
            Some(entity) => {
                let ask = Command::Lock(LockCommand {
                    position: next as u32,
                    ..wish
                });
                self.send(&entity, &ask);
            }
            None => {
                let letter = ExternalMessage {
                    execution: Some(wish.execution),
                    what: EventKind::LockGranted {
                        section: wish.section,
                        is_legacy: wish.is_legacy,
                    },
                };
                self.send(&wish.instance, &Command::Deliver(letter));
            }
        }
    }
}
