//! The mutex underneath the lock table, passed in.
//!
//! Production uses [`Parking`]; the model checker brings its own, so that it sees
//! every moment at which another task could come between.

/// A kind of mutex.
pub trait Latch: Send + Sync + 'static {
    /// The mutex around a `T`.
    type Of<T: Send + 'static>: Guarded<T>;
}

/// Something that only one task at a time may touch.
pub trait Guarded<T>: Send + Sync + 'static {
    /// Guards a value.
    fn new(value: T) -> Self;

    /// Runs `work` while nobody else does.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

/// The mutex of production.
#[derive(Debug)]
pub struct Parking;

impl Latch for Parking {
    type Of<T: Send + 'static> = parking_lot::Mutex<T>;
}

impl<T: Send + 'static> Guarded<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }
}
