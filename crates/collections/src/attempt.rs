//! One attempt of a transaction that is retried.
//!
//! [`Replica::transact`](crate::Replica::transact) gives it to its closure by value and
//! wants a [`Conclusion`] back. Only committing and rolling back make one, so a closure
//! that forgets both does not compile. An attempt that is dropped, by an error or a
//! cancellation, is rolled back.

use std::ops::{Deref, DerefMut};

use crate::error::Result;
use crate::transaction::Tx;

/// A transaction that ends with a value: one attempt of
/// [`Replica::transact`](crate::Replica::transact).
///
/// It is a [`Tx`] for every operation: `accounts.get(&mut tx, "alice")`.
#[must_use = "an attempt that is not committed changes nothing"]
pub struct Attempt(Tx);

/// The value of a transaction that has been committed or rolled back. Only
/// [`Attempt::commit`] and [`Attempt::roll_back`] make one.
#[must_use = "the closure of `transact` returns it"]
pub struct Conclusion<T>(T);

impl Attempt {
    pub(crate) fn new(tx: Tx) -> Self {
        Self(tx)
    }

    /// Commits, and returns the value once the transaction is durable. The commit is under
    /// way when this returns: it goes on if the future is dropped.
    pub fn commit<T>(self, value: T) -> impl Future<Output = Result<Conclusion<T>>> {
        let committed = self.0.commit();
        async move { committed.await.map(|_| Conclusion(value)) }
    }

    /// Drops all changes and releases the locks. The value is returned all the same, and
    /// there is no other attempt: `return Ok(tx.roll_back(value))`.
    pub fn roll_back<T>(self, value: T) -> Conclusion<T> {
        drop(self);
        Conclusion(value)
    }
}

impl<T> Conclusion<T> {
    pub(crate) fn into_value(self) -> T {
        self.0
    }
}

impl Deref for Attempt {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.0
    }
}

impl DerefMut for Attempt {
    fn deref_mut(&mut self) -> &mut Tx {
        &mut self.0
    }
}
