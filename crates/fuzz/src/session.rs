//! What every execution of a session must show.
//!
//! An execution fails if anything panics, also in a task whose panic the server catches;
//! if the session allocates more than its bound; or if the server does not answer a good
//! request afterwards.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::time::runtime;

/// A kind of session with a server.
pub(crate) trait Session: Sized {
    /// The name of the target, and of the folder of its corpus.
    const NAME: &'static str;
    /// The most memory that a session may hold at a time: so many bytes, and so many for
    /// each byte of the input.
    const BOUND: Bound;

    /// Starts a server.
    async fn start() -> Self;

    /// Has the server take an input, and waits until it is done with it.
    async fn take(&mut self, input: &[u8]);

    /// Sends a good request.
    ///
    /// # Panics
    ///
    /// If the server does not answer it as it must.
    async fn answers(&mut self);

    /// Inputs to begin with: what real clients send.
    fn seeds() -> Vec<Vec<u8>>;
}

/// A bound of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) least: u64,
    pub(crate) per_byte: u64,
}

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
pub(crate) fn run<S: Session>(input: &[u8]) {
    count_panics();
    let panics = PANICS.load(Ordering::SeqCst);
    let runtime = runtime();
    let mut server = runtime.block_on(S::start());
    let used = allocation_counter::measure(|| runtime.block_on(server.take(input)));
    let length = input.len() as u64;
    let most = S::BOUND.least + S::BOUND.per_byte * length;
    assert!(
        used.bytes_max <= most,
        "{} bytes are allocated for an input of {length}; {most} are allowed",
        used.bytes_max,
    );
    runtime.block_on(server.answers());
    drop(server);
    drop(runtime);
    let panics = PANICS.load(Ordering::SeqCst) - panics;
    assert_eq!(panics, 0, "the server panicked");
}
