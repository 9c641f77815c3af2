//! Randomness, passed in.
//!
//! The caller supplies the source; tests and simulations pass a seeded one.

/// Where random numbers come from.
pub trait Random {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u32) -> u32;
}

impl<F: FnMut(u32) -> u32> Random for F {
    fn below(&mut self, bound: u32) -> u32 {
        self(bound)
    }
}
