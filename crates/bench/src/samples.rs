//! Medians and percentiles, exact.

use std::time::Duration;

/// Measured durations.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The percentile of the samples, in microseconds.
    pub(crate) fn percentile_us(&mut self, percent: f64) -> f64 {
        self.0.sort_unstable();
        let rank = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        let sample = self.0.get(rank.saturating_sub(1));
        sample.map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e6)
    }
}

/// The middle value; of an even number, the lower of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        for ms in (1..=100).rev() {
            samples.push(Duration::from_millis(ms));
        }
        assert_eq!(samples.percentile_us(50.0), 50_000.0);
        assert_eq!(samples.percentile_us(99.0), 99_000.0);
        assert_eq!(samples.percentile_us(100.0), 100_000.0);
    }

    #[test]
    fn the_median_ignores_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
