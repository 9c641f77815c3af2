//! `cargo xtask soak`: the long tests, one row each.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use crate::{clients, fuse, fuzz, house, process, tools};

/// The long test to run, and how long.
#[derive(Args)]
pub(crate) struct Options {
    /// The long test.
    #[arg(value_parser = names())]
    name: String,
    /// Number of seeds of a simulation
    #[arg(long)]
    seeds: Option<u64>,
    /// Number of rounds of a test with real processes
    #[arg(long)]
    rounds: Option<u64>,
    /// Try only this seed
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    fuzz: fuzz::Options,
}

struct Soak {
    name: &'static str,
    package: &'static str,
    /// Empty for unit tests.
    test: &'static str,
    /// Empty for all tests.
    filter: &'static str,
    /// The variable that sets the amount, and the amount.
    amount: (&'static str, u64),
}

const VERY_OFTEN: u64 = 10_000;

/// Those that are not tests.
const FUZZ: &str = "fuzz";
const FEATURES: &str = "features";

const SOAKS: &[Soak] = &[
    Soak {
        name: "simulation",
        package: "steadfast-storage-local",
        test: "local",
        filter: "recovery::power_cut",
        amount: ("STEADFAST_SEEDS", 10_000),
    },
    Soak {
        name: "simulation",
        package: "steadfast-partition",
        test: "simulation",
        filter: "heals",
        amount: ("STEADFAST_SEEDS", 100_000),
    },
    Soak {
        name: "regions",
        package: "steadfast-storage-replicated",
        test: "",
        filter: "any_weather",
        amount: ("STEADFAST_SEEDS", 20_000),
    },
    Soak {
        name: "regions",
        package: "steadfast-server",
        test: "cluster_nodes",
        filter: "jobs_46_48",
        amount: ("STEADFAST_ROUNDS", 1_000),
    },
    Soak {
        name: "regions",
        package: "steadfast-server",
        test: "cluster_nodes",
        filter: "jobs_46_47",
        amount: ("STEADFAST_ROUNDS", 1_000),
    },
    Soak {
        name: "crash",
        package: "steadfast-storage-local",
        test: "local",
        filter: "crash::kill",
        amount: ("STEADFAST_ROUNDS", 2_000),
    },
    Soak {
        name: "collections",
        package: "steadfast-collections",
        test: "kills",
        filter: "c54",
        amount: ("STEADFAST_ROUNDS", 2_000),
    },
    Soak {
        name: "events",
        package: "steadfast-events",
        test: "events",
        filter: "kill::",
        amount: ("STEADFAST_ROUNDS", 200),
    },
    Soak {
        name: "events",
        package: "steadfast-eventhubs",
        test: "amqp_memory",
        filter: "events_26",
        amount: ("STEADFAST_ROUNDS", 5_000),
    },
    Soak {
        name: "mutations",
        package: "steadfast-wire",
        test: "wire",
        filter: "amqp_mutations::",
        amount: ("STEADFAST_ROUNDS", 20_000_000),
    },
    Soak {
        name: "mutations",
        package: "steadfast-wire",
        test: "wire",
        filter: "blob_mutations::",
        amount: ("STEADFAST_ROUNDS", 5_000_000),
    },
    Soak {
        name: "mutations",
        package: "steadfast-wire",
        test: "wire",
        filter: "signalr_mutations::",
        amount: ("STEADFAST_ROUNDS", 20_000_000),
    },
    Soak {
        name: "mutations",
        package: "steadfast-wire",
        test: "wire",
        filter: "signalr_service::mutated",
        amount: ("STEADFAST_ROUNDS", 20_000_000),
    },
    Soak {
        name: "bank",
        package: "steadfast",
        test: "node",
        filter: "durable_40_60",
        amount: ("STEADFAST_ROUNDS", 100),
    },
    Soak {
        name: "bank",
        package: "steadfast-server",
        test: "server",
        filter: "durable_40_60",
        amount: ("STEADFAST_ROUNDS", 100),
    },
    Soak {
        name: "effects",
        package: "steadfast",
        test: "node",
        filter: "every_effect_of_a_transaction",
        amount: ("STEADFAST_ROUNDS", 2_000),
    },
    Soak {
        name: "effects",
        package: "steadfast-server",
        test: "server",
        filter: "repeated_under_kills",
        amount: ("STEADFAST_ROUNDS", 200),
    },
    Soak {
        name: "drain",
        package: "steadfast-signalr",
        test: "signalr",
        filter: "replaced",
        amount: ("STEADFAST_ROUNDS", 20),
    },
    Soak {
        name: "postgres",
        package: "steadfast-storage-postgres",
        test: "postgres_engine",
        filter: "failover::rounds",
        amount: ("STEADFAST_ROUNDS", 50),
    },
    Soak {
        name: "postgres",
        package: "steadfast-storage-postgres",
        test: "postgres_engine",
        filter: "failover::automatic",
        amount: ("STEADFAST_ROUNDS", 20),
    },
    Soak {
        name: "cluster",
        package: "steadfast-server",
        test: "cluster_nodes",
        filter: "c62",
        amount: ("STEADFAST_ROUNDS", 50),
    },
    Soak {
        name: "clients",
        package: "steadfast-server",
        test: "cluster_nodes",
        filter: "clients::sdks",
        amount: ("STEADFAST_ROUNDS", 1),
    },
    Soak {
        name: "clients",
        package: "steadfast",
        test: "event_hub_clients",
        filter: "",
        amount: ("STEADFAST_NODES", 3),
    },
    Soak {
        name: "clients",
        package: "steadfast",
        test: "event_hub_processors",
        filter: "",
        amount: ("STEADFAST_NODES", 3),
    },
    Soak {
        name: "clients",
        package: "steadfast",
        test: "event_hub_languages",
        filter: "",
        amount: ("STEADFAST_NODES", 3),
    },
    Soak {
        name: "clients",
        package: "steadfast",
        test: "signalr_clients",
        filter: "",
        amount: ("STEADFAST_NODES", 3),
    },
];

/// Runs the chosen soak, all rows of it; true unless one fails.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    match options.name.as_str() {
        FUZZ => return fuzz::soak(workspace, &options.fuzz, options.seed),
        FEATURES => return features(workspace),
        "postgres" | "cluster" => drop(tools::install_postgres(workspace)?),
        "clients" => {
            tools::install_postgres(workspace)?;
            clients::install(workspace)?;
        }
        _ => fuse::ready()?,
    }
    for soak in SOAKS.iter().filter(|soak| soak.name == options.name) {
        exists(workspace, soak)?;
        let mut command = cargo_test(workspace, soak);
        command.arg("--nocapture").envs(variables(soak, options));
        process::run(&mut command)?;
    }
    Ok(true)
}

/// Compiles the binary with each feature alone. Cargo unites other features of dependencies
/// for each, and builds them again: too long for every run of the tests.
fn features(workspace: &Workspace) -> Result<bool> {
    for feature in house::features() {
        let mut command = workspace.cargo();
        command.args(["check", "--package", "steadfast-server", "--locked"]);
        process::run(command.args(["--no-default-features", "--features", feature]))?;
    }
    Ok(true)
}

/// Fails if the filter matches no test: libtest would call that a success.
fn exists(workspace: &Workspace, soak: &Soak) -> Result<()> {
    let mut command = cargo_test(workspace, soak);
    command.arg("--list").stderr(Stdio::inherit());
    if !process::output(&mut command)?.contains(": test") {
        bail!("no test {} in {}", soak.filter, soak.test);
    }
    Ok(())
}

/// Tests that kill processes use the programs that are built already. Tests with many
/// rounds are built with optimizations.
fn cargo_test(workspace: &Workspace, soak: &Soak) -> Command {
    let mut command = workspace.cargo();
    command.args(["test", "--locked"]);
    if soak.amount.1 >= VERY_OFTEN {
        command.args(["--release", "--package", soak.package])
    } else {
        command.arg("--workspace")
    };
    match soak.test {
        "" => command.arg("--lib"),
        test => command.args(["--test", test]),
    };
    command.args(["--", soak.filter]);
    command
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = SOAKS.iter().map(|soak| soak.name).collect();
    names.dedup();
    names.extend([FUZZ, FEATURES]);
    names
}

/// The environment of the test; an option overrides the amount of the row.
fn variables(soak: &Soak, options: &Options) -> Vec<(&'static str, String)> {
    let given = [
        ("STEADFAST_SEEDS", options.seeds),
        ("STEADFAST_ROUNDS", options.rounds),
        ("STEADFAST_SEED", options.seed),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    std::iter::once(soak.amount)
        .chain(given)
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_override_the_row() {
        let options = Options {
            name: "simulation".to_owned(),
            seeds: Some(7),
            rounds: None,
            seed: Some(3),
            fuzz: fuzz::Options::default(),
        };
        let found = variables(&SOAKS[0], &options);
        let expected = [
            ("STEADFAST_SEEDS", "10000".to_owned()),
            ("STEADFAST_SEEDS", "7".to_owned()),
            ("STEADFAST_SEED", "3".to_owned()),
        ];
        assert_eq!(found, expected, "the later of two wins");
    }
}
