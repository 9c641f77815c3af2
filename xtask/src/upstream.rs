//! Tests of the vendors' SDKs against the server.
//!
//! The packages of durabletask-python and durabletask-js carry no tests. So
//! `interop/upstream` lists every end-to-end test of their repositories, with the scenarios
//! of ours that show the same by the unmodified SDK, or why there is none. A test passes if
//! all its scenarios do. The module durabletask-go carries its tests, which are run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::workspace::Workspace;
use crate::{process, tools, upstream_go};

/// A vendor's tests by one of its SDKs.
struct Suite {
    name: &'static str,
    list: &'static str,
    is_managed: bool,
    command: fn(&Workspace, &Request) -> Command,
}

/// What a suite is to run, and where.
struct Request {
    port: u16,
    is_managed: bool,
    names: Vec<String>,
}

impl Request {
    /// As programs of ours take it.
    fn apply(&self, command: &mut Command) {
        let said = json!({"port": self.port, "managed": self.is_managed}).to_string();
        command.arg(said).args(&self.names);
    }
}

const SUITES: &[Suite] = &[
    Suite {
        name: "durabletask-python",
        list: "durabletask-python.txt",
        is_managed: false,
        command: python,
    },
    Suite {
        name: "durabletask-python, azuremanaged",
        list: "durabletask-python.txt",
        is_managed: true,
        command: python,
    },
    Suite {
        name: "durabletask-js",
        list: "durabletask-js.txt",
        is_managed: false,
        command: javascript,
    },
    Suite {
        name: "durabletask-go",
        list: "durabletask-go.txt",
        is_managed: false,
        command: go,
    },
];

fn python(workspace: &Workspace, request: &Request) -> Command {
    let mut command = Command::new(workspace.tools().join("python/durable/bin/python"));
    command.arg(workspace.root.join("interop/durable-python/run.py"));
    request.apply(&mut command);
    command
}

fn javascript(workspace: &Workspace, request: &Request) -> Command {
    let mut command = Command::new(workspace.tools().join("node/bin/node"));
    command.arg(workspace.tools().join("packages/durable/run.mjs"));
    request.apply(&mut command);
    command
}

fn go(workspace: &Workspace, request: &Request) -> Command {
    let mut command = Command::new(upstream_go::program(workspace));
    let pattern = format!("^({})$", request.names.join("|"));
    command
        .args(["-test.v", "-test.timeout", "10m", "-test.run", &pattern])
        .env(upstream_go::ADDRESS, format!("localhost:{}", request.port));
    command
}

/// Installs the SDKs, runs all suites beside one another, each at a server of its own, and
/// prints how many tests pass.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    install(workspace)?;
    // As other groups build it: alone, the binary would unite fewer features, and all
    // dependencies would be built once more.
    let mut build = workspace.cargo();
    build.args(["test", "--locked", "--workspace", "--no-run"]);
    process::run(build.args(["--test", "durable_clients"]))?;
    let results: Vec<_> = thread::scope(|scope| {
        let run = |suite| scope.spawn(move || run(workspace, suite));
        let running: Vec<_> = SUITES.iter().map(run).collect();
        running
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut failed = 0;
    for (suite, result) in SUITES.iter().zip(results) {
        let Ok(result) = result else {
            bail!("{}: the run panicked", suite.name);
        };
        let counts = result.with_context(|| suite.name)?;
        failed += counts.failed.len();
        let Counts {
            passed, left_out, ..
        } = counts;
        let tests = passed + counts.failed.len();
        println!(
            "{}: {passed} of {tests} tests pass, {left_out} left out",
            suite.name
        );
        for test in counts.failed {
            println!("  failed: {test}");
        }
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} tests of vendors fail"),
    }
}

fn install(workspace: &Workspace) -> Result<()> {
    let sources = workspace.root.join("interop");
    let requirements = sources.join("durable-python/requirements.txt");
    tools::install_python(workspace, "durable", &requirements)?;
    tools::install_node(workspace)?;
    tools::install_packages(workspace, "durable", &sources.join("durable-node"))?;
    upstream_go::build(workspace)
}

/// What became of a vendor's tests.
struct Counts {
    passed: usize,
    left_out: usize,
    failed: Vec<String>,
}

fn run(workspace: &Workspace, suite: &Suite) -> Result<Counts> {
    let list = workspace.root.join("interop/upstream").join(suite.list);
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("cannot read {}", list.display()))?;
    let tests = parse(&text)?;
    let names: BTreeSet<_> = tests.values().flatten().collect();
    let server = Server::start(workspace)?;
    let request = Request {
        port: server.port,
        is_managed: suite.is_managed,
        names: names.into_iter().cloned().collect(),
    };
    let mut command = (suite.command)(workspace, &request);
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot start the scenarios")?;
    let out = String::from_utf8_lossy(&output.stdout);
    let good: BTreeSet<_> = out.lines().filter_map(passed).collect();
    let mut counts = Counts {
        passed: 0,
        left_out: 0,
        failed: Vec::new(),
    };
    for (test, scenarios) in &tests {
        match scenarios.iter().all(|name| good.contains(name.as_str())) {
            _ if scenarios.is_empty() => counts.left_out += 1,
            true => counts.passed += 1,
            false => counts.failed.push(test.clone()),
        }
    }
    if !counts.failed.is_empty() {
        eprintln!("{out}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(counts)
}

/// The scenario in a line that says that it went well.
fn passed(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("ok ")
        .or_else(|| line.strip_prefix("--- PASS: "))?;
    rest.split(' ').next()
}

/// Tests and their scenarios. One without a scenario says why.
fn parse(text: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut tests = BTreeMap::new();
    let mut file = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((test, scenarios)) = line.split_once(" => ") else {
            file = line.trim();
            continue;
        };
        let scenarios = match scenarios.strip_prefix("- ") {
            Some(_) => Vec::new(),
            None => scenarios.split(", ").map(str::to_owned).collect(),
        };
        let test = format!("{file}: {}", test.trim());
        if tests.insert(test.clone(), scenarios).is_some() {
            bail!("{test} is listed twice");
        }
    }
    Ok(tests)
}

/// A server for development, in a folder of its own. It is killed on drop.
struct Server {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
    /// It would fail if it could print nothing more.
    _lines: BufReader<ChildStdout>,
}

impl Server {
    fn start(workspace: &Workspace) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = command(workspace, folder.path())
            .spawn()
            .context("cannot start the server")?;
        let out = process.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(out);
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                process.wait()?;
                bail!("the server has ended before it said where it listens");
            }
            let mut words = line.split_whitespace();
            if words.next() == Some("grpc") {
                let address = words.next().context("an address follows")?;
                let port = address.rsplit(':').next().context("a port follows")?;
                return Ok(Self {
                    process,
                    port: port.parse()?,
                    _folder: folder,
                    _lines: lines,
                });
            }
        }
    }
}

/// A server on free ports, without settings of the environment.
fn command(workspace: &Workspace, folder: &Path) -> Command {
    let mut command = Command::new(workspace.target.join("debug/steadfast"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_setting = |prefix: &&str| text.starts_with(*prefix);
        if ["STEADFAST_", "OTEL_", "NOTIFY_"].iter().any(is_setting) {
            command.env_remove(&name);
        }
    }
    command
        .arg("dev")
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("home"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for port in [
        "http.port",
        "durable.port",
        "events.amqp_port",
        "events.blob_port",
        "realtime.port",
    ] {
        command.args(["--set", &format!("{port}=0")]);
    }
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_tests_and_their_scenarios() {
        let tests =
            parse("# why\na.py\n  one => x, y\n  two => - no store\nb.py\n  one => z\n").unwrap();
        assert_eq!(tests["a.py: one"], ["x", "y"]);
        assert!(tests["a.py: two"].is_empty());
        assert_eq!(tests["b.py: one"], ["z"]);
        assert!(parse("a\n x => y\n x => z\n").is_err());
    }

    #[test]
    fn only_lines_that_begin_with_ok_count() {
        assert_eq!(passed("ok some_scenario 0.1 s"), Some("some_scenario"));
        assert_eq!(passed("--- PASS: Test_It (1.00s)"), Some("Test_It"));
        assert_eq!(passed("FAILED some_scenario 0.1 s"), None);
        assert_eq!(passed("--- FAIL: Test_It (1.00s)"), None);
        assert_eq!(passed("not ok"), None);
    }
}
