//! Lists of the vendors' tests.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Returns the name of a test where it runs itself.
pub(super) type Id = fn(file: &str, test: &str) -> String;

/// A test and the scenarios that cover it.
pub(super) struct Test {
    pub(super) id: String,
    /// None if it is left out.
    pub(super) scenarios: Vec<String>,
}

/// Parses tests by file and name. `run` is the test itself; one that is left out has a reason.
pub(super) fn parse(text: &str, id: Id) -> Result<BTreeMap<String, Test>> {
    let mut tests = BTreeMap::new();
    let mut file = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((test, scenarios)) = line.split_once(" => ") else {
            file = line.trim();
            continue;
        };
        let test = test.trim();
        let id = id(file, test);
        let scenarios = match scenarios {
            "run" => vec![id.clone()],
            _ if scenarios.starts_with("- ") => Vec::new(),
            _ => scenarios.split(", ").map(str::to_owned).collect(),
        };
        let name = format!("{file}: {test}");
        if tests.contains_key(&name) {
            bail!("{name} is listed twice");
        }
        tests.insert(name, Test { id, scenarios });
    }
    Ok(tests)
}

/// The scenario in a line that reports success.
pub(super) fn passed(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("ok ")
        .or_else(|| line.strip_prefix("--- PASS: "))?;
    rest.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_tests_and_their_scenarios() {
        let text = "# why\na.py\n  one => x, y\n  two => - no store\nb.py\n  one => run\n";
        let tests = parse(text, |file, test| format!("{file}::{test}")).unwrap();
        assert_eq!(tests["a.py: one"].scenarios, ["x", "y"]);
        assert!(tests["a.py: two"].scenarios.is_empty());
        assert_eq!(tests["a.py: two"].id, "a.py::two");
        assert_eq!(tests["b.py: one"].scenarios, ["b.py::one"]);
        assert!(parse("a\n x => y\n x => z\n", |_, test| test.to_owned()).is_err());
    }

    #[test]
    fn only_lines_that_begin_with_ok_count() {
        assert_eq!(passed("ok some_scenario 0.1 s"), Some("some_scenario"));
        assert_eq!(passed("--- PASS: Test_It (1.00s)"), Some("Test_It"));
        assert_eq!(passed("FAILED some_scenario 0.1 s"), None);
        assert_eq!(passed("--- FAIL: Test_It (1.00s)"), None);
        assert_eq!(passed("    --- PASS: Test_It/of_it (1.00s)"), None);
        assert_eq!(passed("not ok"), None);
    }
}
