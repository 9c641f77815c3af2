//! Sets items beside the tests that show them.

use super::list::{Item, Mark};
use super::results::Test;

/// The table with its last line, and whether all is well.
pub(crate) struct Verdict {
    pub(crate) text: String,
    pub(crate) good: bool,
}

/// Marked items may lack a test; a test that exists must pass.
pub(crate) fn judge(items: &[Item], tests: &[Test]) -> Verdict {
    let mut lines = Vec::new();
    let (mut passed, mut required, mut good) = (0, 0, true);
    for item in items {
        let shown: Vec<_> = tests.iter().filter(|test| test.shows(item)).collect();
        let all_pass = shown.iter().all(|test| test.passed);
        let missing = shown.is_empty() && item.mark.is_none();
        good &= all_pass && !missing;
        if item.mark.is_none() {
            required += 1;
            passed += usize::from(all_pass && !missing);
        }
        lines.extend(rows(item, &shown));
    }
    let marked = |mark| items.iter().filter(|item| item.mark == Some(mark)).count();
    let (bench, later) = (marked(Mark::Bench), marked(Mark::Later));
    lines.push(format!(
        "{passed} of {required} pass, {bench} by the bench, {later} later"
    ));
    Verdict {
        text: lines.join("\n"),
        good,
    }
}

/// Item, test, result: one row per test, or one that says there is none.
fn rows(item: &Item, shown: &[&Test]) -> Vec<String> {
    let mark = item.mark.map(|mark| format!("[{}] ", mark.word()));
    let head = format!("{:<12} {}{}", item.id, mark.unwrap_or_default(), item.title);
    if shown.is_empty() {
        let word = item.mark.map_or("MISSING", |mark| mark.word());
        return vec![format!("{head:<60}  {:<60} {word}", "-")];
    }
    let row = |test: &&Test| {
        let result = if test.passed { "ok" } else { "FAILED" };
        format!("{head:<60}  {:<60} {result}", test.name)
    };
    shown.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{list, results};
    use super::*;

    fn verdict(list: &str, output: &str) -> (String, bool) {
        let verdict = judge(&list::parse(list).unwrap(), &results::parse(output));
        let last = verdict.text.lines().last().unwrap().to_owned();
        (last, verdict.good)
    }

    #[test]
    fn marked_items_are_counted_apart() {
        let list = "c1 a\nc2 [later] b\nc3 [bench] c\n";
        let found = verdict(list, "test local::c1_a ... ok\ntest memory::c1_a ... ok\n");
        assert_eq!(
            found,
            ("1 of 1 pass, 1 by the bench, 1 later".to_owned(), true)
        );
    }

    #[test]
    fn missing_and_failing_items_are_not_good() {
        let found = verdict("c1 a\nc2 b\n", "test c1_a ... ok\n");
        assert_eq!(
            found,
            ("1 of 2 pass, 0 by the bench, 0 later".to_owned(), false)
        );
        let found = verdict("c1 a\n", "test x::c1_a ... ok\ntest y::c1_a ... FAILED\n");
        assert_eq!(
            found,
            ("0 of 1 pass, 0 by the bench, 0 later".to_owned(), false)
        );
        let found = verdict("c1 [later] a\n", "test c1_a ... FAILED\n");
        assert_eq!(
            found,
            ("0 of 0 pass, 0 by the bench, 1 later".to_owned(), false)
        );
    }
}
