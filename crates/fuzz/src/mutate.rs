//! Mutations without a guide, from a seed.

use fastrand::Rng;

/// Makes new inputs from kept ones; the same seed makes the same inputs.
pub struct Mutator {
    random: Rng,
    inputs: Vec<Vec<u8>>,
}

/// The longest input.
const MOST_BYTES: usize = 64 * 1024;

/// Numbers at common bounds.
const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF_FFFF,
];

impl Mutator {
    /// Starts with these inputs, at least one.
    pub fn new(inputs: Vec<Vec<u8>>, seed: u64) -> Self {
        assert!(!inputs.is_empty(), "a mutation needs an input");
        let random = Rng::with_seed(seed);
        Self { random, inputs }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.kept().to_vec();
        for _ in 0..self.random.usize(1..=4) {
            self.mutate(&mut input);
        }
        input.truncate(MOST_BYTES);
        input
    }

    fn kept(&mut self) -> &[u8] {
        let index = self.random.usize(..self.inputs.len());
        &self.inputs[index]
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.usize(..=input.len());
        let end = (at + self.random.usize(..=16)).min(input.len());
        match self.random.u8(..9) {
            0 if at < end => input[at] ^= 1 << self.random.u8(..8),
            1 if at < end => input[at] = self.random.u8(..),
            2 => input.insert(at, self.random.u8(..)),
            3 => drop(input.drain(at..end)),
            4 => {
                let piece = input[at..end].to_vec();
                let to = self.random.usize(..=input.len());
                input.splice(to..to, piece);
            }
            5 => self.number(input, at),
            6 => {
                let other = self.kept().to_vec();
                let from = self.random.usize(..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            7 => self.repeat(input, at, end),
            _ => input.truncate(at.max(1)),
        }
    }

    /// Repeats a piece, up to the longest input.
    fn repeat(&mut self, input: &mut Vec<u8>, at: usize, end: usize) {
        let mut more = input[at..end].repeat(1 << self.random.usize(..12));
        more.truncate(MOST_BYTES.saturating_sub(input.len()));
        input.splice(end..end, more);
    }

    /// Overwrites a few bytes by a number of that width.
    fn number(&mut self, input: &mut [u8], at: usize) {
        let number = NUMBERS[self.random.usize(..NUMBERS.len())];
        let width = 1 << self.random.usize(..4);
        let bytes = if self.random.bool() {
            number.to_be_bytes()[8 - width..].to_vec()
        } else {
            number.to_le_bytes()[..width].to_vec()
        };
        for (place, byte) in input.iter_mut().skip(at).zip(bytes) {
            *place = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let inputs = vec![b"some input".to_vec(), b"another".to_vec()];
        let mut one = Mutator::new(inputs.clone(), 7);
        let mut other = Mutator::new(inputs, 7);
        for _ in 0..100 {
            assert_eq!(one.next_input(), other.next_input());
        }
    }
}
