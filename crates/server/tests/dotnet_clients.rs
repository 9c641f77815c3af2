//! Unmodified SDKs of .NET.
//!
//! The programs stand in `interop/dotnet`.
//! `cargo xtask test --only clients` builds the programs and runs these tests where a
//! `dotnet` can restore the packages, and says otherwise that they are not run.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;

use std::process::Command;

use running::{KNOWN, Server, Start, said};
use steadfast_harness::clients::dotnet;

const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Runs a program to its end; it says `ok` if nothing was wrong.
fn succeed(mut command: Command, server: &Server) {
    let output = command.output().expect("dotnet is installed");
    let (code, out, err) = said(&output);
    assert_eq!(code, 0, "{out}{err}{}", server.log());
    assert!(out.lines().any(|line| line.starts_with("ok")), "{out}{err}");
}

#[test]
fn workers_and_clients_of_dotnet_run_entities_and_locks() {
    let server = Start::new("dev").ready();
    let mut command = dotnet("durable");
    let address = format!("http://127.0.0.1:{}", server.port_of("durable"));
    command.env("STEADFAST_DURABLE", address);
    succeed(command, &server);
}

#[test]
fn processors_of_dotnet_share_a_group() {
    let server = Start::new("dev").ready();
    let made = server.run(&["eventhub", "create", "houses", "--partitions", "4"]);
    let (code, out, err) = said(&made);
    assert_eq!(code, 0, "{out}{err}");
    let (amqp, blob) = (server.port_of("amqp"), server.port_of("blob"));
    let events = format!(
        "Endpoint=sb://localhost:{amqp};SharedAccessKeyName=RootManageSharedAccessKey;\
         SharedAccessKey={KNOWN};UseDevelopmentEmulator=true;"
    );
    let blobs = format!(
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={ACCOUNT_KEY};\
         BlobEndpoint=http://127.0.0.1:{blob}/devstoreaccount1;"
    );
    let mut command = dotnet("event-hubs");
    command.env("EVENTS", events).env("BLOBS", blobs);
    succeed(command, &server);
}
