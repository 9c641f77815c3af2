//! The tests that a suite runs, and their server.

use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::server::Server;

/// The tests of a suite, by the names of what runs, and their server.
pub(super) struct Request<'a> {
    pub(super) server: &'a Server,
    pub(super) is_managed: bool,
    pub(super) names: Vec<String>,
}

impl Request<'_> {
    /// Passes the request to our own programs.
    pub(super) fn apply(&self, command: &mut Command) -> Result<()> {
        let port = self.server.port("grpc")?;
        let description = json!({"port": port, "managed": self.is_managed}).to_string();
        command.arg(description).args(&self.names);
        Ok(())
    }
}
