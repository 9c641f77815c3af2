//! Reads what libtest prints.

use super::list::Item;

/// One test that ran.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// With its modules: `local::seam_07_refuses_stale_epoch`.
    pub(crate) name: String,
    pub(crate) passed: bool,
}

impl Test {
    /// Whether its name, or a module in its path, begins with the item's id.
    pub(crate) fn shows(&self, item: &Item) -> bool {
        self.name
            .split("::")
            .filter_map(|part| part.strip_prefix(item.id.as_str()))
            .any(|rest| rest.starts_with('_'))
    }
}

/// The tests in the output of libtest; one that was ignored did not pass.
pub(crate) fn parse(output: &str) -> Vec<Test> {
    output.lines().filter_map(parse_line).collect()
}

/// Reads `test some::name ... ok`.
fn parse_line(line: &str) -> Option<Test> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some(Test {
        name: name.to_owned(),
        passed: result.trim() == "ok",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 4 tests
test local::seam_02_fences ... ok
test memory::seam_02_fences ... FAILED
test seam_20_reads::of_nothing - should panic ... ok
test seam_3_slow ... ignored, takes long

failures:
    memory::seam_02_fences

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn names_and_results() {
        let found = parse(OUTPUT);
        let found: Vec<_> = found
            .iter()
            .map(|test| (test.name.as_str(), test.passed))
            .collect();
        let expected = [
            ("local::seam_02_fences", true),
            ("memory::seam_02_fences", false),
            ("seam_20_reads::of_nothing", true),
            ("seam_3_slow", false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_match_as_a_whole() {
        let item = |id: &str| Item {
            id: id.to_owned(),
            mark: None,
            title: String::new(),
        };
        let tests = parse(OUTPUT);
        let shown = |id: &str| tests.iter().filter(|test| test.shows(&item(id))).count();
        assert_eq!(shown("seam_02"), 2);
        assert_eq!(shown("seam_20"), 1, "a module carries the number");
        assert_eq!(shown("seam_2"), 0);
        assert_eq!(shown("02"), 0);
    }
}
