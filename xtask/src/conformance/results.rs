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
    /// Whether its name, or a module in its path, begins with the item's id. A test
    /// may show several items of one list: `durable_11_12_ids_are_taken_once`.
    pub(crate) fn shows(&self, item: &Item) -> bool {
        let begins = |part: &str| {
            let rest = part.strip_prefix(item.id.as_str());
            rest.is_some_and(|rest| rest.starts_with('_'))
        };
        self.name
            .split("::")
            .any(|part| begins(part) || names(part, &item.id))
    }
}

/// Whether the item's number is among those behind the name of its list.
fn names(part: &str, id: &str) -> bool {
    let Some((list, number)) = id.rsplit_once('_') else {
        return false;
    };
    let rest = part
        .strip_prefix(list)
        .and_then(|rest| rest.strip_prefix('_'));
    let words = rest.unwrap_or_default().split('_');
    words
        .take_while(|word| word.len() == number.len() && word.parse::<u32>().is_ok())
        .any(|word| word == number)
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
    fn a_test_may_show_several_items() {
        let item = |id: &str| Item {
            id: id.into(),
            mark: None,
            title: "x".into(),
        };
        let test = Test {
            name: "life::durable_11_12_ids_13".into(),
            passed: true,
        };
        assert!(test.shows(&item("durable_11")) && test.shows(&item("durable_12")));
        assert!(!test.shows(&item("durable_13")) && !test.shows(&item("jobs_11")));
    }

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
