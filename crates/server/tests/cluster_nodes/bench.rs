//! `steadfast bench cluster`, as a user runs it.

use std::process::Command;

use serde_json::Value;
use steadfast_harness::postgres::PostgresServer;

#[test]
fn a_quick_run_of_three_nodes_reports_and_leaves_nothing() {
    let server = PostgresServer::shared();
    let url = server.url("postgres");
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(["bench", "cluster", "--single", "--quick", "--json"]);
    let output = command.args(["--url", &url]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["area"], "cluster");
    for part in ["limits", "figures"] {
        let values = report[part].as_object().unwrap();
        assert!(!values.is_empty(), "{part} are missing");
        for (name, value) in values {
            assert!(value.as_f64().is_some_and(f64::is_finite), "{name}");
        }
    }
    for name in [
        "commits_per_s_any_node_300_clients",
        "commits_per_s_at_owner_300_clients",
        "read_one_hop_p99_us",
        "event_tail_other_node_p99_us",
        "event_tail_other_node_mb_per_s",
        "event_fanout_15_readers_p99_us",
        "event_fanout_15_readers_mb_per_s",
        "volatile_commits_per_s_no_mirror_300_clients",
        "volatile_commits_per_s_mirror_300_clients",
        "region_commits_per_s_no_mirror_300_clients",
        "region_commits_per_s_mirror_300_clients",
    ] {
        let value = report["figures"][name].as_f64();
        assert!(value.is_some_and(|value| value > 0.0), "{name}: {value:?}");
    }
    let left = "select count(*) from pg_namespace \
        where nspname not like 'pg\\_%' and nspname not in ('information_schema', 'public')";
    assert_eq!(server.sql(left).unwrap(), "0", "schemas are left");
}
