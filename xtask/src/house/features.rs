//! A feature that is off leaves its dependencies out.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Features, and the crate whose whole chain each brings.
const FEATURES: [(&str, &str); 1] = [("pkcs12", "p12-keystore")];

/// The dependencies of the binary without features that only a feature may bring.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut command = workspace.cargo();
    command.args(["tree", "--package", "steadfast-server", "--locked"]);
    command.args(["--no-default-features", "--edges", "normal"]);
    Ok(find(&process::output(
        command.args(["--prefix", "none", "--format", "{p}"]),
    )?))
}

fn find(tree: &str) -> Vec<String> {
    let has = |package: &str| {
        let mut names = tree.lines().filter_map(|line| line.split(' ').next());
        names.any(|name| name == package)
    };
    let wrong = FEATURES.iter().filter(|(_, package)| has(package));
    wrong
        .map(|(feature, package)| format!("without the feature {feature} there is {package}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_a_feature_that_is_off_is_found() {
        let tree = "steadfast-server v0.1.0\nhmac v0.13.0\np12-keystore v0.4.1\n";
        let expected = ["without the feature pkcs12 there is p12-keystore"];
        assert_eq!(find(tree), expected);
        assert!(find("steadfast-server v0.1.0\nhmac v0.13.0\n").is_empty());
    }
}
