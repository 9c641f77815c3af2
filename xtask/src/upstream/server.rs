//! Servers for the vendors' tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::workspace::Workspace;

/// The name under which tests know a namespace of Azure.
const NAMESPACE: &str = "live.servicebus.windows.net";
/// The keys that a server for development has.
pub(super) const KEY_NAME: &str = "RootManageSharedAccessKey";
pub(super) const KEY: &str = "SAS_KEY_VALUE";
pub(super) const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Event hubs that tests expect to be there.
const EVENT_HUBS: &str = r#"
[[event_hub]]
name = "live"
partitions = 4

[[event_hub]]
name = "links"
partitions = 4
"#;

/// A server for development, in a folder of its own. It is killed on drop.
pub(super) struct Server {
    process: Child,
    pub(super) address: Ipv4Addr,
    ports: BTreeMap<String, u16>,
    folder: tempfile::TempDir,
    /// Kept open, because the server fails when it cannot print.
    lines: BufReader<ChildStdout>,
}

impl Server {
    /// On free ports of loopback, not encrypted.
    pub(super) fn plain(workspace: &Workspace) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let command = command(workspace, folder.path());
        Self::start(command, folder, Ipv4Addr::LOCALHOST)
    }

    /// With TLS, at a separate address: these clients use only the standard port of AMQP. All
    /// of 127.0.0.0/8 is loopback.
    pub(super) fn encrypted(workspace: &Workspace, number: u8) -> Result<Self> {
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 100 + number, high, low.max(1));
        let folder = tempfile::tempdir()?;
        let names = vec![address.to_string(), NAMESPACE.to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = folder.path().join("key.pem");
        std::fs::write(certificate(folder.path()), made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        std::fs::write(folder.path().join("steadfast.toml"), EVENT_HUBS)?;
        let mut command = command(workspace, folder.path());
        for setting in [
            format!("listen={address}"),
            format!("http.hosts={NAMESPACE}"),
            "events.amqps_port=5671".to_owned(),
            format!("tls.certificate={}", certificate(folder.path()).display()),
            format!("tls.key={}", key.display()),
        ] {
            command.arg("--set").arg(setting);
        }
        Self::start(command, folder, address)
    }

    /// Waits until the server prints its gRPC address, which comes last.
    fn start(mut command: Command, folder: tempfile::TempDir, address: Ipv4Addr) -> Result<Self> {
        let mut process = command.spawn().context("cannot start the server")?;
        let out = process.stdout.take().context("its output is piped")?;
        let mut server = Self {
            process,
            address,
            ports: BTreeMap::new(),
            folder,
            lines: BufReader::new(out),
        };
        let mut line = String::new();
        while !server.ports.contains_key("grpc") {
            line.clear();
            if server.lines.read_line(&mut line)? == 0 {
                server.process.wait()?;
                let log = std::fs::read_to_string(log(server.folder.path()))?;
                bail!("the server exited before it printed its addresses: {log}");
            }
            let mut words = line.split_whitespace();
            if let (Some(name), Some(address)) = (words.next(), words.next())
                && let Some((_, port)) = address.rsplit_once(':')
                && let Ok(port) = port.parse()
            {
                server.ports.entry(name.to_owned()).or_insert(port);
            }
        }
        Ok(server)
    }

    pub(super) fn port(&self, name: &str) -> Result<u16> {
        let port = self.ports.get(name).copied();
        port.with_context(|| format!("the server has no port for {name}"))
    }

    pub(super) fn certificate(&self) -> PathBuf {
        certificate(self.folder.path())
    }

    /// What clients of event hubs and blobs need to know.
    pub(super) fn description(&self) -> Result<Value> {
        Ok(json!({
            "namespace": NAMESPACE,
            "address": self.address,
            "amqps": self.port("amqps")?,
            "http": self.port("http")?,
            "blob": self.port("blob")?,
            "certificate": self.certificate(),
            "key_name": KEY_NAME,
            "key": KEY,
            "account": ACCOUNT,
            "account_key": ACCOUNT_KEY,
        }))
    }
}

fn certificate(folder: &Path) -> PathBuf {
    folder.join("chain.pem")
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log.txt")
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
    let log = std::fs::File::create(log(folder)).map_or_else(|_| Stdio::null(), Stdio::from);
    command
        .arg("dev")
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("home"))
        .stdout(Stdio::piped())
        .stderr(log);
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
