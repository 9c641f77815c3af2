//! The tests that durabletask-go carries.
//!
//! Their `TestMain` starts the module's own server. It is replaced by one that connects
//! to a running server; the tests stay unmodified.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::request::Request;
use crate::workspace::Workspace;
use crate::{process, tools};

const MODULE: &str = "github.com/microsoft/durabletask-go";
const TESTS: &str = "tests/grpc/grpc_test.go";
/// The variable that names the server.
const ADDRESS: &str = "STEADFAST_TASK_HUB";
/// What only the module's own server needs.
const IMPORTS: [&str; 2] = [
    "\t\"net\"\n",
    "\t\"github.com/microsoft/durabletask-go/backend/sqlite\"\n",
];
const MAIN: &str = r#"func TestMain(m *testing.M) {
	address := os.Getenv("STEADFAST_TASK_HUB")
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatalf("cannot connect to %s: %v", address, err)
	}
	grpcClient = client.NewTaskHubGrpcClient(conn, backend.DefaultLogger())
	os.Exit(m.Run())
}
"#;

/// The tests, as one program.
fn program(workspace: &Workspace) -> PathBuf {
    workspace.tools().join("go/durabletask-go.test")
}

/// Copies the module from the cache, and builds its tests.
pub(super) fn build(workspace: &Workspace) -> Result<()> {
    let source = workspace.root.join("interop/go");
    tools::build_go(workspace, &source)?;
    let mut list = tools::go_command(workspace)?;
    list.args(["list", "-m", "-f", "{{.Dir}}", MODULE]);
    let module = process::output(list.current_dir(&source))?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("module");
    let mut cp = Command::new("cp");
    cp.args(["-r", "--no-preserve=mode", module.trim()]);
    process::run(cp.arg(&copy))?;
    change(&copy.join(TESTS))?;
    let mut test = tools::go_command(workspace)?;
    test.args(["test", "-c", "-o"]).arg(program(workspace));
    process::run(test.arg("./tests/grpc").current_dir(&copy))
}

/// The tests' start connects before it lists them.
fn started(workspace: &Workspace, request: &Request<'_>) -> Result<Command> {
    let mut command = Command::new(program(workspace));
    let port = request.server.port("grpc")?;
    command.env(ADDRESS, format!("localhost:{port}"));
    Ok(command)
}

pub(super) fn carried(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<String>> {
    let mut list = started(workspace, request)?;
    let text = process::output(list.args(["-test.list", "^Test"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

pub(super) fn commands(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<Command>> {
    let mut command = started(workspace, request)?;
    let pattern = format!("^({})$", request.names.join("|"));
    command.args(["-test.v", "-test.timeout", "10m", "-test.run", &pattern]);
    Ok(vec![command])
}

fn change(file: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let changed = replace_main(&text).context("there is no TestMain")?;
    std::fs::write(file, changed)?;
    Ok(())
}

fn replace_main(text: &str) -> Option<String> {
    let start = text.find("func TestMain(")?;
    let end = start + text[start..].find("\n}\n")? + "\n}\n".len();
    let mut changed = format!("{}{MAIN}{}", &text[..start], &text[end..]);
    for import in IMPORTS {
        changed = changed.replacen(import, "", 1);
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_of_the_tests_is_replaced() {
        let text =
            "\t\"net\"\nfunc TestMain(m *testing.M) {\n\tif x {\n\t}\n}\n\nfunc Test_A() {\n}\n";
        let changed = replace_main(text).unwrap();
        assert_eq!(changed, format!("{MAIN}\nfunc Test_A() {{\n}}\n"));
        assert!(replace_main("func Test_A() {\n}\n").is_none());
    }
}
