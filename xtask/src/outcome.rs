//! How groups of tests ended, and the table of them.

use std::time::Duration;

use crate::groups::Group;

/// How a group ended.
pub(crate) struct Outcome {
    group: &'static str,
    took: Duration,
    /// CPU time of the programs that have ended.
    worked: Duration,
    pub(crate) passed: bool,
}

impl Outcome {
    pub(crate) fn new(group: &Group, took: Duration, worked: Duration, passed: bool) -> Self {
        Self {
            group: group.name,
            took,
            worked,
            passed,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "seconds of real programs are measured"
)]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = std::time::Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The table of seconds, elapsed and of CPU time, the failed groups, and the count as the last
/// line. Groups of two lanes share the time that `took` says.
pub(crate) fn report(outcomes: &[Outcome], took: Duration) -> String {
    let mut lines = vec![format!(
        "{:<12} {:>8} {:>8}  result",
        "group", "seconds", "CPU"
    )];
    for outcome in outcomes {
        let result = if outcome.passed { "passed" } else { "FAILED" };
        let seconds = outcome.took.as_secs_f64();
        let worked = outcome.worked.as_secs_f64();
        lines.push(format!(
            "{:<12} {seconds:>8.1} {worked:>8.1}  {result}",
            outcome.group
        ));
    }
    let worked: f64 = outcomes
        .iter()
        .map(|outcome| outcome.worked.as_secs_f64())
        .sum();
    lines.push(format!(
        "{:<12} {:>8.1} {worked:>8.1}",
        "all",
        took.as_secs_f64()
    ));
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !outcome.passed)
        .map(|outcome| outcome.group)
        .collect();
    if !failed.is_empty() {
        lines.push(format!("failed: {}", failed.join(", ")));
    }
    let passed = outcomes.len() - failed.len();
    lines.push(format!("{passed} passed, {} failed", failed.len()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(group: &'static str, passed: bool) -> Outcome {
        Outcome {
            group,
            took: Duration::from_millis(1234),
            worked: Duration::from_millis(567),
            passed,
        }
    }

    #[test]
    fn report_ends_with_the_count() {
        let text = report(
            &[outcome("format", true), outcome("unit", false)],
            Duration::from_millis(1500),
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "format            1.2      0.6  passed");
        assert_eq!(lines[3], "all               1.5      1.1");
        assert_eq!(lines[4], "failed: unit");
        assert_eq!(lines[5], "1 passed, 1 failed");
    }
}
