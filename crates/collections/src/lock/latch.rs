//! The mutex of the lock table, as a type parameter.
//!
//! Production uses [`ParkingLatch`]; the model checker brings its own, so that it sees
//! every point at which tasks may interleave.

/// A kind of mutex.
pub trait Latch: Send + Sync + 'static {
    /// The mutex around a `T`.
    type Of<T: Send + 'static>: LatchCell<T>;
}

/// A value that one thread at a time may access.
pub trait LatchCell<T>: Send + Sync + 'static {
    /// Guards a value.
    fn new(value: T) -> Self;

    /// Runs `work` under mutual exclusion.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

/// The mutex of production.
#[derive(Debug)]
pub struct ParkingLatch;

impl Latch for ParkingLatch {
    type Of<T: Send + 'static> = parking_lot::Mutex<T>;
}

impl<T: Send + 'static> LatchCell<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }
}
