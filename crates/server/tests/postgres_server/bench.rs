//! `steadfast bench postgres`, as a user runs it.

use std::process::Command;

use serde_json::Value;
use steadfast_harness::postgres::PostgresServer;

#[test]
fn a_quick_run_reports_and_leaves_nothing() {
    let server = PostgresServer::shared();
    let url = server.url("postgres");
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(["bench", "postgres", "--single", "--quick", "--json"]);
    let output = command.args(["--url", &url]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["area"], "postgres");
    for part in ["limits", "figures"] {
        let values = report[part].as_object().unwrap();
        assert!(!values.is_empty(), "{part} are missing");
        for (name, value) in values {
            let value = value.as_f64().unwrap_or(f64::NAN);
            assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        }
    }
    let per_commit = &report["figures"]["log_bytes_per_commit_1000_clients"];
    assert!(per_commit.as_f64().unwrap() > 50.0, "{per_commit}");
    let goals = report["goals"].as_array().unwrap();
    assert!(!goals.is_empty(), "goals are missing");
    let left = "select count(*) from pg_namespace \
        where nspname not like 'pg\\_%' and nspname not in ('information_schema', 'public')";
    assert_eq!(server.sql(left).unwrap(), "0", "schemas are left");
}
