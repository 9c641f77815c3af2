//! A feature that is off leaves its dependencies out.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// A feature of the binary, and what only it may bring.
struct Feature {
    name: &'static str,
    /// Crates that are compiled for it, each with its chain.
    packages: &'static [&'static str],
    /// Other features that it turns on.
    needs: &'static [&'static str],
}

const fn feature(
    name: &'static str,
    packages: &'static [&'static str],
    needs: &'static [&'static str],
) -> Feature {
    Feature {
        name,
        packages,
        needs,
    }
}

const EVERY: &[&str] = &[
    "cluster",
    "durabletask",
    "eventhubs",
    "postgres",
    "scheduler",
    "signalr",
];

const FEATURES: &[Feature] = &[
    feature("bench", &["steadfast-bench", "steadfast-client"], EVERY),
    feature("cluster", &["steadfast-cluster-rpc"], &[]),
    feature(
        "durabletask",
        &["steadfast-durabletask", "steadfast-durabletask-messages"],
        &[],
    ),
    feature("eventhubs", &["steadfast-eventhubs"], &[]),
    feature("pkcs12", &["p12-keystore"], &["scheduler"]),
    feature(
        "postgres",
        &["steadfast-storage-postgres", "tokio-postgres"],
        &[],
    ),
    feature("scheduler", &["steadfast-scheduler", "quick-xml"], &[]),
    feature("signalr", &["steadfast-signalr"], &[]),
];

/// The names of all features of the binary.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().map(|feature| feature.name)
}

/// The dependencies of the binary that only a feature may bring that is off: with none, and
/// with each alone.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = find(&tree(workspace, "")?, "");
    for name in names() {
        findings.extend(find(&tree(workspace, name)?, name));
    }
    Ok(findings)
}

fn tree(workspace: &Workspace, features: &str) -> Result<String> {
    let mut command = workspace.cargo();
    command.args(["tree", "--package", "steadfast-server", "--locked"]);
    command.args(["--no-default-features", "--features", features]);
    command.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    process::output(&mut command)
}

/// What is in the tree of a build with this feature, and belongs to another one. What it
/// should bring must be there.
fn find(tree: &str, on: &str) -> Vec<String> {
    let has = |package: &str| {
        let mut names = tree.lines().filter_map(|line| line.split(' ').next());
        names.any(|name| name == package)
    };
    let needed = FEATURES.iter().find(|feature| feature.name == on);
    let needed = needed.map_or(&[][..], |feature| feature.needs);
    let mut findings = Vec::new();
    for feature in FEATURES {
        let is_on = feature.name == on || needed.contains(&feature.name);
        for package in feature.packages.iter().filter(|name| has(name) != is_on) {
            let (name, with) = (feature.name, if on.is_empty() { "none" } else { on });
            findings.push(if is_on {
                format!("with the feature {name} there is no {package}")
            } else {
                format!("without the feature {name} there is {package} (features: {with})")
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_a_feature_that_is_off_is_found() {
        let tree = "steadfast-server v0.1.0\nhmac v0.13.0\np12-keystore v0.4.1\n";
        let expected = ["without the feature pkcs12 there is p12-keystore (features: none)"];
        assert_eq!(find(tree, ""), expected);
        assert!(find("steadfast-server v0.1.0\nhmac v0.13.0\n", "").is_empty());
    }

    #[test]
    fn a_feature_brings_its_own_crate_and_no_other() {
        let tree = "steadfast-server v0.1.0\nsteadfast-cluster-rpc v0.1.0\n";
        assert!(find(tree, "cluster").is_empty());
        let expected = [
            "without the feature cluster there is steadfast-cluster-rpc (features: signalr)",
            "with the feature signalr there is no steadfast-signalr",
        ];
        assert_eq!(find(tree, "signalr"), expected);
    }

    #[test]
    fn a_feature_may_need_others() {
        let tree = "p12-keystore v0.4.1\nsteadfast-scheduler v0.1.0\nquick-xml v0.42.0\n";
        assert!(find(tree, "pkcs12").is_empty());
    }
}
