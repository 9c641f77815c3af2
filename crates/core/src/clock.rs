//! Time, passed in.
//!
//! Nothing below the binary asks the operating system for the time: it takes a
//! [`Clock`]. Tests and simulations pass a [`VirtualClock`] and move it by hand.
//! Wall-clock time may jump; monotonic time never goes back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time `duration` later; at most the last representable one.
    pub const fn plus(self, duration: Duration) -> Self {
        let ms = whole_ms(duration);
        if ms > i64::MAX as u64 {
            Self(i64::MAX)
        } else {
            Self(self.0.saturating_add(ms as i64))
        }
    }
}

/// The whole milliseconds of a duration that a client may have chosen: as many as fit.
pub const fn whole_ms(duration: Duration) -> u64 {
    let ms = duration.as_millis();
    if ms > u64::MAX as u128 {
        u64::MAX
    } else {
        ms as u64
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. It may jump either way.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;

    /// CPU time of the calling thread; monotonic time where the platform does not count
    /// it. Two readings on one thread tell computing from waiting for a CPU.
    fn thread_cpu_time(&self) -> Duration {
        self.monotonic()
    }

    /// Notes a time that was given out although the wall clock has not reached it, such as
    /// that of the second turn of an orchestration within one millisecond. Only a clock that
    /// stands still needs it, to catch up.
    fn note_ahead(&self, _: Timestamp) {}
}

/// The operating system's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970: owner time never goes back anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(since.unwrap_or_default().as_millis() as i64)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn thread_cpu_time(&self) -> Duration {
        let spent = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
    }
}

/// The operating system's clocks, with a monotonic one that goes on while the machine
/// sleeps: for leases and other promises that expire.
#[derive(Debug, Clone, Default)]
pub struct SleeplessClock(SystemClock);

impl Clock for SleeplessClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    #[cfg(target_os = "linux")]
    fn monotonic(&self) -> Duration {
        let since = clock_gettime(ClockId::Boottime);
        Duration::new(since.tv_sec as u64, since.tv_nsec as u32)
    }

    #[cfg(not(target_os = "linux"))]
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.0.thread_cpu_time()
    }
}

/// A clock that stands still until a test moves it.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::clock::{Clock, Timestamp, VirtualClock};
///
/// let clock = VirtualClock::starting_at(Timestamp(1_000));
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(clock.now(), Timestamp(1_005));
///
/// // The wall clock may be set back; monotonic time does not follow.
/// clock.jump_to(Timestamp(10));
/// assert_eq!(clock.now(), Timestamp(10));
/// assert_eq!(clock.monotonic(), Duration::from_millis(5));
/// ```
#[derive(Debug, Clone, Default)]
pub struct VirtualClock {
    wall_ms: Arc<AtomicI64>,
    monotonic_us: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock that shows `start` until it is moved. Clones share the time.
    pub fn starting_at(start: Timestamp) -> Self {
        let clock = Self::default();
        clock.jump_to(start);
        clock
    }

    /// Moves both clocks on.
    pub fn advance(&self, by: Duration) {
        self.monotonic_us
            .fetch_add(by.as_micros() as u64, Ordering::SeqCst);
        self.wall_ms
            .fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }

    /// Sets the wall clock, forwards or back; monotonic time stays.
    pub fn jump_to(&self, wall: Timestamp) {
        self.wall_ms.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.wall_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_us.load(Ordering::SeqCst))
    }
}

/// A clock whose wall time stands still until it is moved forwards, and whose monotonic
/// time is the operating system's: for a whole node on virtual time. What is stored
/// follows the wall clock; leases, locks and time-outs follow monotonic time, so that
/// no jump of the wall clock ends them.
///
/// ```
/// use steadfast_core::clock::{Clock, SteppedClock, Timestamp};
///
/// let clock = SteppedClock::starting_at(Timestamp(1_000));
/// clock.move_to(Timestamp(5_000));
/// clock.move_to(Timestamp(2_000)); // never back
/// assert_eq!(clock.now(), Timestamp(5_000));
/// ```
#[derive(Debug, Clone)]
pub struct SteppedClock {
    wall_ms: Arc<AtomicI64>,
    /// The latest time that was given out.
    ahead_ms: Arc<AtomicI64>,
    system: SystemClock,
}

impl SteppedClock {
    /// A clock that shows `start` until it is moved. Clones share the time.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            wall_ms: Arc::new(AtomicI64::new(start.0)),
            ahead_ms: Arc::new(AtomicI64::new(start.0)),
            system: SystemClock::new(),
        }
    }

    /// Moves the wall clock forwards to `wall`; an earlier time changes nothing.
    pub fn move_to(&self, wall: Timestamp) {
        self.wall_ms.fetch_max(wall.0, Ordering::SeqCst);
    }

    /// Moves the wall clock forwards to the latest time that was given out; returns by how
    /// much.
    pub fn catch_up(&self) -> Duration {
        let before = self.now();
        self.move_to(Timestamp(self.ahead_ms.load(Ordering::SeqCst)));
        let moved_ms = self.now().0.saturating_sub(before.0);
        Duration::from_millis(moved_ms.unsigned_abs())
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.wall_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.system.thread_cpu_time()
    }

    fn note_ahead(&self, time: Timestamp) {
        self.ahead_ms.fetch_max(time.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stepped_clock_moves_its_wall_time_only() {
        let clock = SteppedClock::starting_at(Timestamp(7));
        let before = clock.monotonic();
        clock.note_ahead(Timestamp(9));
        clock.note_ahead(Timestamp(8));
        assert_eq!(clock.now(), Timestamp(7));
        assert_eq!(clock.catch_up(), Duration::from_millis(2));
        assert_eq!(clock.catch_up(), Duration::ZERO);
        assert_eq!(clock.now(), Timestamp(9));
        clock.clone().move_to(Timestamp(i64::MAX));
        assert_eq!(clock.now(), Timestamp(i64::MAX));
        assert!(clock.monotonic() - before < Duration::from_secs(3600));
    }

    #[test]
    fn system_time_is_after_2026_and_monotonic_time_moves_on() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp(1_760_000_000_000));
        let before = clock.monotonic();
        while clock.monotonic() == before {}
        assert!(clock.monotonic() > before);
    }

    #[test]
    fn a_duration_without_end_leads_to_the_last_time() {
        for long in [Duration::MAX, Duration::from_millis(u64::MAX)] {
            assert_eq!(Timestamp(7).plus(long), Timestamp(i64::MAX));
            assert_eq!(Timestamp(i64::MIN).plus(long), Timestamp(i64::MAX));
            assert_eq!(whole_ms(long), u64::MAX);
        }
        assert_eq!(Timestamp(7).plus(Duration::from_micros(2999)), Timestamp(9));
    }

    #[test]
    fn the_clock_without_sleep_moves_on() {
        let clock = SleeplessClock::default();
        let before = clock.monotonic();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.monotonic() - before >= Duration::from_millis(2));
        assert!(clock.now() > Timestamp(1_760_000_000_000));
    }

    #[test]
    fn processor_time_leaves_out_what_the_thread_slept() {
        let clock = SystemClock::new();
        let (began, worked) = (clock.monotonic(), clock.thread_cpu_time());
        std::thread::sleep(Duration::from_millis(50));
        let (slept, worked) = (clock.monotonic() - began, clock.thread_cpu_time() - worked);
        assert!(worked < slept / 2, "worked {worked:?} in {slept:?}");
    }
}
