//! The groups of tests, one row each.

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{clients, deny, fuse, house, process, tools, upstream};

/// A part of `cargo xtask test` that can be run alone.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    pub(crate) run: fn(&Workspace) -> Result<()>,
    /// Whether it uses what [`install`] installs.
    pub(crate) needs_tools: bool,
    pub(crate) lane: Lane,
}

/// Which groups a group runs beside, if several are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Before the lanes, with the machine to itself.
    First,
    /// One after the other at low priority: they compute.
    Busy,
    /// One after the other beside the busy ones, with priority over them: they mostly wait,
    /// for leases, timers and responses, and some of them measure latency.
    Waiting,
}

impl Group {
    const fn with_tools(mut self) -> Self {
        self.needs_tools = true;
        self
    }

    const fn first(mut self) -> Self {
        self.lane = Lane::First;
        self
    }

    const fn waiting(mut self) -> Self {
        self.lane = Lane::Waiting;
        self
    }
}

const fn row(
    name: &'static str,
    purpose: &'static str,
    run: fn(&Workspace) -> Result<()>,
) -> Group {
    Group {
        name,
        purpose,
        run,
        needs_tools: false,
        lane: Lane::Busy,
    }
}

/// All groups; those of a lane run in this order.
#[rustfmt::skip]
pub(crate) const GROUPS: &[Group] = &[
    row("format", "rustfmt changes nothing", format).first(),
    row("lints", "clippy has no warning, with all features and with none", lints).first(),
    row("house", "rings, layers, headers, names, words, paths, error pages, leftovers, page of clients, planted faults", house::check).first(),
    row("deny", "licences, banned crates, sources, advisories", deny::check).first(),
    row("build", "every test compiles", build).first(),
    row("unit", "unit tests of every crate", unit),
    row("storage", "conformance, recovery, crash and error tests of the engines", storage),
    row("ownership", "balancing of a thousand members, its rules and the drain", ownership),
    row("collections", "conformance, models, crash and history tests of the collections", collections),
    row("partition", "the runtime, and a simulation of several nodes on 1,000 seeds", partition),
    row("jobs", "recurrence against an oracle, runs, retries and downtimes of jobs", jobs),
    row("durable", "orchestrations, entities, locks, delivery to workers", durable),
    row("events", "event hubs, blobs and processors; kills", events),
    row("realtime", "hubs and their clients, without a transport", realtime),
    row("postgres", "conformance, failover, damage and migration tests of the engine on PostgreSQL", postgres).with_tools().waiting(),
    row("cluster", "three nodes on PostgreSQL that join, leave, are killed and frozen", cluster).with_tools().waiting(),
    row("harness", "tests of the test harness", harness),
    row("docs", "examples in the documentation, and its links", docs),
    row("server", "tests of the binary", server).with_tools().waiting(),
    row("cli", "the command line: help, examples, former names, output, errors", cli),
    row("guard", "attacks on the binary: rights, budgets, origins, revocation", guard).waiting(),
    row("wire", "codecs: round trips, golden bytes, mutations", wire),
    row("fuzz", "whole sessions: the kept corpus and mutations of it", fuzz),
    row("protocols", "connections over real sockets, and their bounds", protocols),
    row("clients", "unmodified SDKs of five languages against the server, scenario by scenario", clients::check).with_tools(),
    row("upstream", "the vendors' own tests: carried by packages, or shown by scenarios", upstream::check).with_tools().waiting(),
    row("tools", "installs Python, Node, PostgreSQL and the browser, and tries each", tools::check).with_tools(),
];

/// Installs the SDKs, PostgreSQL and the browser. Each group installs what it uses by
/// itself; this does it for all of them, beside the groups that use nothing.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    tools::install_postgres(workspace)?;
    clients::install(workspace)?;
    upstream::install(workspace)
}

fn format(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    process::run(command.args(["fmt", "--all", "--", "--check"]))
}

fn lints(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    process::run(command.args(["--", "-D", "warnings"]))?;
    let mut command = workspace.cargo();
    command.args(["clippy", "--package", "steadfast-server", "--locked"]);
    process::run(command.args(["--no-default-features", "--", "-D", "warnings"]))
}

fn build(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    process::run(command.args(["test", "--workspace", "--locked", "--no-run"]))
}

fn unit(workspace: &Workspace) -> Result<()> {
    cargo_test(workspace, &["--workspace", "--lib", "--bins"], &[])
}

/// The seam, its engines that need no server, and backups.
const STORAGE: [&str; 3] = [
    "steadfast-storage",
    "steadfast-storage-local",
    "steadfast-backup",
];

/// The crates with tests of the engine on PostgreSQL.
const POSTGRES: [&str; 2] = ["steadfast-storage-postgres", "steadfast-backup"];

fn storage(workspace: &Workspace) -> Result<()> {
    fuse::ready()?;
    for package in STORAGE {
        chosen(workspace, package, |test| !needs_postgres(test))?;
    }
    Ok(())
}

fn postgres(workspace: &Workspace) -> Result<()> {
    tools::install_postgres(workspace)?;
    for package in POSTGRES {
        chosen(workspace, package, needs_postgres)?;
    }
    chosen(workspace, "steadfast-collections", needs_postgres)?;
    chosen(workspace, "steadfast-server", needs_postgres)
}

fn cluster(workspace: &Workspace) -> Result<()> {
    tools::install_postgres(workspace)?;
    clients::install(workspace)?;
    // Each test has several nodes and databases of its own, with leases that expire.
    let measured = ["--show-output", ONE_AT_A_TIME];
    for package in [
        "steadfast-partition",
        "steadfast-cluster-rpc",
        "steadfast",
        "steadfast-server",
    ] {
        let files = files(workspace, package, is_of_cluster)?;
        cargo_test(workspace, &scope(&files), &measured)?;
    }
    // The tests of the engine that cover items of the cluster's list.
    for package in POSTGRES {
        let files = files(workspace, package, needs_postgres)?;
        let scope = scope(&files);
        cargo_test(workspace, &scope, &["t14_", "c63_", "c64_", "c65_"])?;
    }
    Ok(())
}

/// Whether the name of a test file says that it needs several nodes.
fn is_of_cluster(test: &str) -> bool {
    test.starts_with("cluster")
}

/// Whether the name of a test file says that it needs a PostgreSQL server.
fn needs_postgres(test: &str) -> bool {
    test.starts_with("postgres")
}

fn wire(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-wire")
}

fn fuzz(workspace: &Workspace) -> Result<()> {
    let files = files(workspace, "steadfast-fuzz", |_| true)?;
    // A panic is detected per process, so one target runs at a time.
    let options = ["--show-output", ONE_AT_A_TIME];
    cargo_test(workspace, &scope(&files), &options)
}

/// The crates with connections over sockets.
const PROTOCOLS: [&str; 4] = [
    "steadfast-net",
    "steadfast-eventhubs",
    "steadfast-scheduler",
    "steadfast-signalr",
];

fn protocols(workspace: &Workspace) -> Result<()> {
    for package in PROTOCOLS {
        // Third-party clients belong to the group `clients`.
        chosen(workspace, package, |test| !clients::TESTS.contains(&test))?;
    }
    Ok(())
}

fn jobs(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-jobs")
}

fn durable(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-durable")
}

fn ownership(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-ownership")
}

fn partition(workspace: &Workspace) -> Result<()> {
    chosen(workspace, "steadfast-partition", |test| {
        !is_of_cluster(test)
    })
}

fn events(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-events")
}

fn realtime(workspace: &Workspace) -> Result<()> {
    integration(workspace, "steadfast-realtime")
}

fn collections(workspace: &Workspace) -> Result<()> {
    fuse::ready()?;
    chosen(workspace, "steadfast-collections", |test| {
        !needs_postgres(test)
    })
}

fn harness(workspace: &Workspace) -> Result<()> {
    fuse::ready()?;
    integration(workspace, "steadfast-harness")
}

fn server(workspace: &Workspace) -> Result<()> {
    tools::install_systemd()?;
    chosen(workspace, "steadfast-server", |test| {
        !needs_postgres(test)
            && !is_of_cluster(test)
            && !is_of_guard(test)
            && !is_of_cli(test)
            && !clients::TESTS.contains(&test)
    })
}

fn cli(workspace: &Workspace) -> Result<()> {
    chosen(workspace, "steadfast-server", is_of_cli)
}

/// Whether the name of a test file says that it is about the command line as a whole.
fn is_of_cli(test: &str) -> bool {
    test == "cli"
}

fn guard(workspace: &Workspace) -> Result<()> {
    chosen(workspace, "steadfast-server", is_of_guard)
}

/// Whether the name of a test file says that it attacks the binary.
fn is_of_guard(test: &str) -> bool {
    test.starts_with("guard")
}

fn docs(workspace: &Workspace) -> Result<()> {
    cargo_test(workspace, &["--workspace", "--doc"], &[])?;
    chosen(workspace, "steadfast", |test| {
        !is_of_cluster(test) && !clients::TESTS.contains(&test)
    })?;
    let mut command = workspace.cargo();
    command
        .args(["doc", "--no-deps", "--workspace", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut command)
}

fn integration(workspace: &Workspace, package: &str) -> Result<()> {
    chosen(workspace, package, |_| true)
}

/// Tests in a package's `tests` folder; its unit tests belong to the group `unit`.
/// They are selected by name from the whole workspace: for a single package, cargo would
/// unify fewer features and build the dependencies again.
fn chosen(workspace: &Workspace, package: &str, takes: fn(&str) -> bool) -> Result<()> {
    let files = files(workspace, package, takes)?;
    let (alone, beside): (Vec<_>, Vec<_>) = files.iter().copied().partition(|name| is_alone(name));
    let mut outcome = Ok(());
    for (files, options) in [(beside, [].as_slice()), (alone, &[ONE_AT_A_TIME])] {
        if !files.is_empty() {
            outcome = outcome.and(cargo_test(workspace, &scope(&files), options));
        }
    }
    outcome
}

const ONE_AT_A_TIME: &str = "--test-threads=1";

/// Whether the name of a test file says that its tests measure latency or memory, which
/// another test beside them would change.
fn is_alone(test: &str) -> bool {
    test.ends_with("_alone")
}

/// The names of a package's test files.
fn files<'a>(
    workspace: &'a Workspace,
    package: &str,
    takes: fn(&str) -> bool,
) -> Result<Vec<&'a str>> {
    let targets = workspace.package(package)?.targets.iter();
    let tests = targets.filter(|target| target.is("test") && takes(&target.name));
    Ok(tests.map(|target| target.name.as_str()).collect())
}

/// What selects these test files from the whole workspace.
fn scope<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let tests = files.iter().flat_map(|file| ["--test", file]);
    std::iter::once("--workspace").chain(tests).collect()
}

/// Runs all tests in scope, even after a failure; `options` are passed to the tests.
fn cargo_test(workspace: &Workspace, scope: &[&str], options: &[&str]) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--no-fail-fast"]);
    process::run(command.args(scope).arg("--").args(options))
}
