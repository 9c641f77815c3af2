//! `steadfast hub token`: tokens for clients.

use anyhow::{Context, Result};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::path::hub_path;
use crate::globals::Globals;
use crate::output::{out, print_value};
use crate::server_client::ServerClient;

/// A token for a client.
#[derive(Args)]
pub(crate) struct TokenArguments {
    /// Name of the hub
    hub: String,
    /// User id of the client
    #[arg(long)]
    user: Option<String>,
    /// Lifetime of the token, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    lifetime: u64,
}

/// Creates a token.
pub(crate) fn run(token: &TokenArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let body = json!({"user": token.user, "lifetime_s": token.lifetime});
    let path = format!("{}/tokens", hub_path(&token.hub)?);
    let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
    if globals.output().is_structured() {
        return print_value(&answer, globals.output());
    }
    let token = answer["token"].as_str();
    out(&token.context("the server's response has no token")?)
}
