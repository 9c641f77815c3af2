//! Dependencies between crates point down only.
//!
//! A crate uses only what the table grants it and what the root manifest lists before it.

use anyhow::Result;

use crate::workspace::{Dependency, Package, Workspace};

/// What a crate may use of the workspace.
enum Grant {
    /// Everything that is listed before it.
    AllBelow,
    Only(&'static [&'static str]),
}

/// What the four services may use.
const SERVICE: Grant = Grant::Only(&["core", "macros", "ownership", "collections", "partition"]);

/// What the crates of engines may use.
const ENGINE: Grant = Grant::Only(&["core", "macros", "storage"]);

/// The column "may use" of the layout, by folder.
const GRANTS: &[(&str, Grant)] = &[
    ("core", Grant::Only(&[])),
    ("macros", Grant::Only(&[])),
    ("wire", Grant::Only(&["core"])),
    ("ownership", Grant::Only(&["core"])),
    ("storage", Grant::Only(&["core", "macros"])),
    // The engines: none uses another.
    ("storage-local", ENGINE),
    ("storage-postgres", ENGINE),
    ("storage-replicated", ENGINE),
    (
        "backup",
        Grant::Only(&[
            "core",
            "macros",
            "storage",
            "storage-local",
            "storage-postgres",
        ]),
    ),
    ("collections", Grant::Only(&["core", "macros", "storage"])),
    (
        "partition",
        Grant::Only(&[
            "core",
            "macros",
            "ownership",
            "collections",
            "storage",
            "storage-replicated",
        ]),
    ),
    ("durable", SERVICE),
    ("jobs", SERVICE),
    // A hub's messages are written in the protocol of each client.
    (
        "realtime",
        Grant::Only(&[
            "core",
            "macros",
            "ownership",
            "collections",
            "partition",
            "wire",
        ]),
    ),
    ("events", SERVICE),
    (
        "durabletask-messages",
        Grant::Only(&["core", "wire", "durable"]),
    ),
    (
        "client",
        Grant::Only(&["core", "wire", "durable", "durabletask-messages"]),
    ),
    (
        "net",
        Grant::Only(&["core", "macros", "wire", "partition", "events"]),
    ),
    // The siblings: a crate per protocol, none of which uses another.
    (
        "eventhubs",
        Grant::Only(&["core", "wire", "net", "partition", "events"]),
    ),
    (
        "durabletask",
        Grant::Only(&[
            "core",
            "wire",
            "net",
            "partition",
            "durable",
            "durabletask-messages",
        ]),
    ),
    (
        // An event hub can be the target of a job.
        "scheduler",
        Grant::Only(&["core", "wire", "net", "partition", "events", "jobs"]),
    ),
    (
        "signalr",
        Grant::Only(&["core", "wire", "net", "partition", "realtime"]),
    ),
    (
        "admin",
        Grant::Only(&[
            "core",
            "wire",
            "net",
            "partition",
            "events",
            "durable",
            "jobs",
            "realtime",
        ]),
    ),
    (
        "cluster-rpc",
        Grant::Only(&["core", "wire", "net", "partition"]),
    ),
    ("steadfast", Grant::AllBelow),
    ("bench", Grant::AllBelow),
    ("server", Grant::Only(&["steadfast", "bench"])),
    ("fuzz", Grant::AllBelow),
    ("harness", Grant::Only(&["core"])),
    ("xtask", Grant::Only(&[])),
];

/// Crates for tests: nothing but a test may depend on them.
const TESTS_ONLY: [&str; 3] = ["fuzz", "harness", "xtask"];

/// Databases from outside, and who may name them. The benchmark measures them, too.
const DATABASES: [(&str, &[&str]); 3] = [
    ("fjall", &["bench"]),
    ("lsm-tree", &["storage-local", "bench"]),
    ("tokio-postgres", &["storage-postgres", "bench"]),
];

/// The dependencies that break a rule.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    Ok(find(&workspace.layers()?, &workspace.packages))
}

fn find(order: &[String], packages: &[Package]) -> Vec<String> {
    let complaint = |package: &Package, dependency: &Dependency| {
        complaint_about_database(package, dependency)
            .or_else(|| complaint_about_layer(order, package, dependency))
            .map(|complaint| format!("{} -> {}: {complaint}", package.name, dependency.name))
    };
    let pairs = packages.iter().flat_map(|package| {
        package
            .dependencies
            .iter()
            .map(move |found| (package, found))
    });
    let unknown = order
        .iter()
        .filter(|name| grant(folder(name)).is_none())
        .map(|name| format!("{name} has no row in the table of layers"));
    unknown
        .chain(pairs.filter_map(|(package, found)| complaint(package, found)))
        .collect()
}

fn complaint_about_database(package: &Package, dependency: &Dependency) -> Option<String> {
    let mut databases = DATABASES.iter();
    let (_, users) = databases.find(|(name, _)| *name == dependency.name)?;
    let is_for_tests = dependency.kind.as_deref() == Some("dev");
    let permitted = is_for_tests || users.contains(&folder(&package.name));
    (!permitted).then(|| format!("only {} may name it", users.join(" and ")))
}

/// A test may use any member; everything else follows the table and the order.
fn complaint_about_layer(
    order: &[String],
    package: &Package,
    dependency: &Dependency,
) -> Option<String> {
    let place = |name: &str| order.iter().position(|member| member == name);
    let used = place(&dependency.name)?;
    if dependency.kind.as_deref() == Some("dev") {
        return None;
    }
    let user = place(&package.name)?;
    let name = folder(&dependency.name);
    if TESTS_ONLY.contains(&name) {
        return Some("is for tests: a dev-dependency only".to_owned());
    }
    if used >= user {
        return Some("is not below it in the list of members".to_owned());
    }
    match grant(folder(&package.name))? {
        Grant::AllBelow => None,
        Grant::Only(names) if names.contains(&name) => None,
        Grant::Only([]) => Some("it may use no member".to_owned()),
        Grant::Only(names) => Some(format!("it may use {}", names.join(", "))),
    }
}

fn grant(folder: &str) -> Option<&'static Grant> {
    GRANTS
        .iter()
        .find(|(name, _)| *name == folder)
        .map(|(_, grant)| grant)
}

/// Packages are `steadfast-<folder>`, except the facade and the tools.
fn folder(package: &str) -> &str {
    package.strip_prefix("steadfast-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages in layer order, each with its dependencies as (name, kind).
    fn findings(packages: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let order: Vec<_> = packages
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let packages: Vec<_> = packages
            .iter()
            .map(|(name, dependencies)| package(name, dependencies))
            .collect();
        find(&order, &packages)
    }

    fn package(name: &str, dependencies: &[(&str, &str)]) -> Package {
        let dependency = |(name, kind): &(&str, &str)| Dependency {
            name: (*name).to_owned(),
            kind: (!kind.is_empty()).then(|| (*kind).to_owned()),
        };
        Package {
            name: name.to_owned(),
            manifest_path: "Cargo.toml".into(),
            dependencies: dependencies.iter().map(dependency).collect(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn arrows_down_are_fine() {
        let found = findings(&[
            ("steadfast-core", &[("bytes", "")]),
            (
                "steadfast-storage",
                &[
                    ("steadfast-core", ""),
                    ("fjall", "dev"),
                    ("steadfast-harness", "dev"),
                ],
            ),
            (
                "steadfast-storage-local",
                &[("steadfast-storage", ""), ("lsm-tree", "")],
            ),
            ("steadfast-backup", &[("steadfast-storage-local", "")]),
            (
                "steadfast",
                &[("steadfast-core", ""), ("steadfast-storage", "")],
            ),
            ("steadfast-harness", &[]),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn each_wrong_arrow_is_found() {
        let found = findings(&[
            (
                "steadfast-core",
                &[("steadfast-storage", ""), ("lsm-tree", "")],
            ),
            ("steadfast-storage", &[("steadfast-harness", "")]),
            ("steadfast-storage-local", &[("tokio-postgres", "")]),
            (
                "steadfast-storage-replicated",
                &[("steadfast-storage-local", "")],
            ),
            ("steadfast-collections", &[]),
            ("steadfast-server", &[("steadfast-storage", "")]),
            ("steadfast-harness", &[("lsm-tree", "dev")]),
            ("steadfast-net", &[]),
            ("steadfast-eventhubs", &[("steadfast-net", "")]),
            ("steadfast-signalr", &[("steadfast-eventhubs", "")]),
            ("steadfast-novelty", &[]),
        ]);
        let expected = [
            "steadfast-novelty has no row in the table of layers",
            "steadfast-core -> steadfast-storage: is not below it in the list of members",
            "steadfast-core -> lsm-tree: only storage-local and bench may name it",
            "steadfast-storage -> steadfast-harness: is for tests: a dev-dependency only",
            "steadfast-storage-local -> tokio-postgres: only storage-postgres and bench may name it",
            "steadfast-storage-replicated -> steadfast-storage-local: it may use core, macros, storage",
            "steadfast-server -> steadfast-storage: it may use steadfast, bench",
            "steadfast-signalr -> steadfast-eventhubs: it may use core, wire, net, partition, realtime",
        ];
        assert_eq!(found, expected);
    }
}
