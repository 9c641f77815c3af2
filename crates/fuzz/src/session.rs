//! Executes inputs and checks the invariants of a session.
//!
//! An execution fails if anything panics, also in a task whose panic the server catches;
//! if the session allocates more than its bound or takes too much CPU time; if the
//! server does not answer a good request afterwards; or if something stays allocated
//! when the server has ended.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::time::{due_within, runtime};

/// A kind of session with a server.
#[expect(
    async_fn_in_trait,
    reason = "an execution has one thread, so no future needs to be sent"
)]
pub trait Session: Sized {
    /// The name of the target, and of the folder of its corpus.
    const NAME: &'static str;
    /// The most memory that a session may hold: a number of bytes, and a number for each
    /// byte of the input.
    const BOUND: MemoryBound;

    /// Starts a server.
    async fn start() -> Self;

    /// Sends an input to the server, and waits until it is processed.
    async fn take(&mut self, input: &[u8]);

    /// Sends a good request.
    ///
    /// # Panics
    ///
    /// If the response is missing or wrong.
    async fn answers(&mut self);

    /// Seed inputs: what real clients send.
    fn seeds() -> Vec<Vec<u8>>;
}

/// A bound of memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBound {
    pub least: u64,
    pub per_byte: u64,
}

/// The most CPU time that one input may take, in seconds. The longest input takes a
/// fraction of it, also without optimisation.
const MOST_SECONDS: i64 = 10;

/// The most time of the server that a session may take: all requests of an input, each as
/// long as a client waits.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The most bytes that an execution may leave allocated, and how often one is repeated
/// that leaves more.
const LEFT_BYTES: i64 = 1024;
const ATTEMPTS: usize = 3;

/// Panics since the start of the process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics from now on, those that are caught included.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(info);
        }));
    });
}

/// Executes one input against a new server.
///
/// # Panics
///
/// If the server does something that it must not.
pub fn run<S: Session>(input: &[u8]) {
    count_panics();
    let mut left = 0;
    // The first execution leaves allocated what exists once per process.
    for _ in 0..ATTEMPTS {
        let whole = allocation_counter::measure(|| execute::<S>(input));
        left = whole.bytes_current;
        if left <= LEFT_BYTES {
            return;
        }
    }
    panic!("{left} bytes stay allocated after each execution");
}

fn execute<S: Session>(input: &[u8]) {
    let before = PANICS.load(Ordering::SeqCst);
    let runtime = runtime();
    let mut server = runtime.block_on(S::start());
    let began = clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let used = allocation_counter::measure(|| {
        runtime.block_on(due_within("a session", LONGEST, server.take(input)));
    });
    let seconds = clock_gettime(ClockId::ThreadCPUTime).tv_sec - began;
    // A panic allocates much, so it is checked first.
    let panics = || PANICS.load(Ordering::SeqCst) - before;
    assert_eq!(panics(), 0, "the server panicked");
    let length = input.len() as u64;
    let most = S::BOUND.least + S::BOUND.per_byte * length;
    assert!(
        used.bytes_max <= most,
        "{} bytes are allocated for an input of {length}; {most} are allowed",
        used.bytes_max,
    );
    assert!(
        seconds <= MOST_SECONDS,
        "an input of {length} takes {seconds} s of the processor",
    );
    runtime.block_on(due_within("an answer", LONGEST, server.answers()));
    drop(server);
    drop(runtime);
    assert_eq!(panics(), 0, "the server panicked");
}
