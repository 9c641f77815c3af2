//! The locks underneath the group commit, passed in.
//!
//! Production uses [`Parking`]; the model checker brings its own, so that it sees
//! every moment at which another task could come between.

use std::ops::{Deref, DerefMut};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A kind of lock.
pub(crate) trait Latch: Send + Sync + 'static {
    /// The lock around a `T`.
    type Of<T: Send + Sync + 'static>: Guarded<T>;
}

/// Something that many may read, or one may change.
pub(crate) trait Guarded<T>: Send + Sync + 'static {
    type Reading<'a>: Deref<Target = T>
    where
        Self: 'a;
    type Writing<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    fn new(value: T) -> Self;

    fn read(&self) -> Self::Reading<'_>;

    fn write(&self) -> Self::Writing<'_>;

    /// Without a lock: the reference is exclusive.
    fn get_mut(&mut self) -> &mut T;
}

/// The lock of production.
#[derive(Debug)]
pub(crate) struct Parking;

impl Latch for Parking {
    type Of<T: Send + Sync + 'static> = RwLock<T>;
}

impl<T: Send + Sync + 'static> Guarded<T> for RwLock<T> {
    type Reading<'a> = RwLockReadGuard<'a, T>;
    type Writing<'a> = RwLockWriteGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.write()
    }

    fn get_mut(&mut self) -> &mut T {
        self.get_mut()
    }
}
