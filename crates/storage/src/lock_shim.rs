//! The locks underneath the group commit, passed in.
//!
//! Production uses [`ParkingLocks`]; the model checker brings its own, so that it sees
//! every moment at which another task could come between.

use std::ops::{Deref, DerefMut};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A kind of lock.
pub(crate) trait LockFamily: Send + Sync + 'static {
    /// The lock around a `T`.
    type LockOf<T: Send + Sync + 'static>: SharedLock<T>;
}

/// A lock for many readers or one writer.
pub(crate) trait SharedLock<T>: Send + Sync + 'static {
    type SharedGuard<'a>: Deref<Target = T>
    where
        Self: 'a;
    type ExclusiveGuard<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    fn new(value: T) -> Self;

    fn read(&self) -> Self::SharedGuard<'_>;

    fn write(&self) -> Self::ExclusiveGuard<'_>;

    /// Without a lock: the reference is exclusive.
    fn get_mut(&mut self) -> &mut T;
}

/// The lock of production.
#[derive(Debug)]
pub(crate) struct ParkingLocks;

impl LockFamily for ParkingLocks {
    type LockOf<T: Send + Sync + 'static> = RwLock<T>;
}

impl<T: Send + Sync + 'static> SharedLock<T> for RwLock<T> {
    type SharedGuard<'a> = RwLockReadGuard<'a, T>;
    type ExclusiveGuard<'a> = RwLockWriteGuard<'a, T>;

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
