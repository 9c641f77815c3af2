//! A value as returned by a read.
//!
//! It can be read and shared, never changed: a new value is written through the
//! collection only. It may outlive its transaction.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A stored value: cheap to clone, impossible to change.
pub struct StoredValue<V>(pub(crate) Arc<V>);

impl<V> Deref for StoredValue<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0
    }
}

impl<V> Clone for StoredValue<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: fmt::Debug> fmt::Debug for StoredValue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<V: PartialEq> PartialEq for StoredValue<V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<V: PartialEq> PartialEq<V> for StoredValue<V> {
    fn eq(&self, other: &V) -> bool {
        *self.0 == *other
    }
}
