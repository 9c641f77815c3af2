//! What an execution must find is found.

use std::hint::black_box;
use std::panic::catch_unwind;

use steadfast_fuzz::{MemoryBound, Session, run};

/// A server that does what the first byte of an input says.
struct Faulty {
    is_answering: bool,
}

impl Session for Faulty {
    const NAME: &'static str = "faulty";
    const BOUND: MemoryBound = MemoryBound {
        least: 64 * 1024,
        per_byte: 1024,
    };

    async fn start() -> Self {
        Self { is_answering: true }
    }

    async fn take(&mut self, input: &[u8]) {
        match input[0] {
            b'p' => drop(tokio::spawn(async { panic!("in a task") }).await),
            b'a' => drop(black_box(vec![1u8; input.len() * 2048 + 64 * 1024])),
            b'h' => std::future::pending().await,
            b's' => self.is_answering = false,
            b'l' => std::mem::forget(vec![1u8; 4096]),
            _ => drop(black_box(vec![1u8; input.len() * 512])),
        }
    }

    async fn answers(&mut self) {
        assert!(self.is_answering, "no answer");
    }

    fn seeds() -> Vec<Vec<u8>> {
        vec![b"good".to_vec()]
    }
}

#[test]
fn an_execution_fails_by_a_panic_an_allocation_a_hang_silence_and_a_leak() {
    run::<Faulty>(b"good");
    for (fault, words) in [
        ("panic", "the server panicked"),
        ("allocation", "are allocated"),
        ("hang", "takes longer"),
        ("silence", "no answer"),
        ("leak", "stay allocated"),
    ] {
        let failed = catch_unwind(|| run::<Faulty>(fault.as_bytes()));
        let panic = failed.expect_err("the fault is found");
        let found = panic.downcast_ref::<String>().map(String::as_str);
        let found = found.or_else(|| panic.downcast_ref::<&str>().copied());
        let found = found.unwrap_or_default();
        assert!(found.contains(words), "{fault}: {found}");
    }
    run::<Faulty>(b"good again");
}
