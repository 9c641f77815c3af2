//! A place in the queue of a lock.
//!
//! Resolves when the lock is granted. Dropping it leaves the queue; if the lock
//! was granted in the same instant, it stays with the transaction.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::lock::latch::Latch;
use crate::lock::name::Kept;
use crate::lock::table::Table;

/// Waits for a lock: true once it is granted, false if the transaction has ended.
pub struct Waiting<L: Latch> {
    table: Arc<Table<L>>,
    name: Kept,
    ticket: u64,
    woken: oneshot::Receiver<()>,
    is_done: bool,
}

impl<L: Latch> Waiting<L> {
    pub(crate) fn new(
        table: Arc<Table<L>>,
        name: Kept,
        ticket: u64,
        woken: oneshot::Receiver<()>,
    ) -> Self {
        Self {
            table,
            name,
            ticket,
            woken,
            is_done: false,
        }
    }

    /// Stops waiting; true if the lock was granted after all.
    pub fn give_up(mut self) -> bool {
        self.is_done = true;
        let was_waiting = self.table.cancel(&self.name, self.ticket);
        !was_waiting && self.woken.try_recv().is_ok()
    }
}

impl<L: Latch> Future for Waiting<L> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let woken = Pin::new(&mut self.woken).poll(context);
        woken.map(|answer| {
            self.is_done = true;
            answer.is_ok()
        })
    }
}

impl<L: Latch> Drop for Waiting<L> {
    fn drop(&mut self) {
        if !self.is_done {
            self.table.cancel(&self.name, self.ticket);
        }
    }
}
