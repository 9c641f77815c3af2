//! The tests that the Go module azeventhubs carries.
//!
//! They request a credential from Azure through a package of another module. Its file is
//! replaced by one that signs web tokens with the server's key; the tests stay unmodified.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::request::Request;
use super::server::{ACCOUNT, KEY, KEY_NAME};
use crate::workspace::Workspace;
use crate::{process, tools};

const MODULE: &str = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2";
/// The module with the package that tests get their credentials from.
const INTERNAL: &str = "github.com/Azure/azure-sdk-for-go/sdk/internal";
const CREDENTIAL: &str = "test/credential/credential.go";
/// The packages with tests that need a service, and their programs.
const PACKAGES: [(&str, &str); 3] = [
    (".", "azeventhubs.test"),
    ("./internal", "azeventhubs-internal.test"),
    ("./checkpoints", "azeventhubs-checkpoints.test"),
];

/// Copies both modules from the cache, and builds the tests.
pub(super) fn build(workspace: &Workspace) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let interop = workspace.root.join("interop");
    let module = copy(workspace, MODULE, &interop.join("go"), folder.path())?;
    // It names the version itself.
    let internal = copy(workspace, INTERNAL, &module, folder.path())?;
    let credential = interop.join("upstream/azeventhubs-go/credential.go");
    std::fs::copy(credential, internal.join(CREDENTIAL))?;
    let mut edit = tools::go_command(workspace)?;
    edit.args(["mod", "edit", "-replace"]);
    edit.arg(format!("{INTERNAL}={}", internal.display()));
    process::run(edit.current_dir(&module))?;
    for (package, name) in PACKAGES {
        let mut test = tools::go_command(workspace)?;
        test.args(["test", "-c", "-o"])
            .arg(program(workspace, name));
        process::run(test.arg(package).current_dir(&module))?;
    }
    Ok(())
}

/// Copies a module in the version that `source` requires.
fn copy(workspace: &Workspace, module: &str, source: &Path, to: &Path) -> Result<PathBuf> {
    let mut download = tools::go_command(workspace)?;
    process::run(
        download
            .args(["mod", "download", module])
            .current_dir(source),
    )?;
    let mut list = tools::go_command(workspace)?;
    list.args(["list", "-m", "-f", "{{.Dir}}", module]);
    let found = process::output(list.current_dir(source))?;
    let folder = to.join(module.replace('/', "-"));
    let mut cp = Command::new("cp");
    cp.args(["-r", "--no-preserve=mode", found.trim()]);
    process::run(cp.arg(&folder))?;
    Ok(folder)
}

fn program(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.tools().join("go").join(name)
}

/// The names of the tests, without examples.
pub(super) fn carried(workspace: &Workspace, _: &Request<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (_, name) in PACKAGES {
        let mut list = Command::new(program(workspace, name));
        let text = process::output(list.args(["-test.list", "^Test"]))?;
        names.extend(text.lines().map(str::to_owned));
    }
    Ok(names)
}

/// One program per package.
pub(super) fn commands(workspace: &Workspace, request: &Request<'_>) -> Result<Vec<Command>> {
    let server = request.server;
    let host = server.address;
    let connection =
        format!("Endpoint=sb://{host}/;SharedAccessKeyName={KEY_NAME};SharedAccessKey={KEY}");
    let blobs = format!("https://{host}:{}/{ACCOUNT}", server.port("blob")?);
    let pattern = format!("^({})$", request.names.join("|"));
    let mut commands = Vec::new();
    for (_, name) in PACKAGES {
        let mut command = Command::new(program(workspace, name));
        command
            .args(["-test.v", "-test.timeout", "3m", "-test.run", &pattern])
            .current_dir(workspace.tools().join("go"))
            .env("STEADFAST_KEY", KEY)
            .env("STEADFAST_HTTP", server.port("http")?.to_string())
            .env("SSL_CERT_FILE", server.certificate())
            .env("EVENTHUB_NAMESPACE", host.to_string())
            .env("EVENTHUB_NAME", "live")
            .env("EVENTHUB_LINKSONLY_NAME", "links")
            .env("CHECKPOINTSTORE_STORAGE_ENDPOINT", &blobs)
            .env("AZURE_SUBSCRIPTION_ID", "none")
            .env("RESOURCE_GROUP", "none");
        for right in ["", "_LISTEN_ONLY", "_SEND_ONLY"] {
            command.env(format!("EVENTHUB_CONNECTION_STRING{right}"), &connection);
        }
        commands.push(command);
    }
    Ok(commands)
}
