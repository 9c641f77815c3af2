//! `steadfast bench`, as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

type Goal = (&'static str, &'static str, &'static str);

const GOALS: [Goal; 9] = [
    ("append_p50_over_fdatasync_p50", "ratio", "<= 2"),
    ("commits_per_sync_64_writers", "commits", ">= 16"),
    ("commits_per_s_over_fjall_64_writers", "ratio", ">= 1"),
    ("commit_p99_over_fjall_64_writers", "ratio", "<= 0.5"),
    ("commits_per_sync_1000_writers", "commits", ">= 200"),
    ("commits_per_s_over_fjall_1000_writers", "ratio", ">= 1"),
    ("commit_p99_over_fjall_1000_writers", "ratio", "<= 0.5"),
    ("events_over_sequential_write", "ratio", ">= 0.6"),
    ("reopen_after_kill", "s", "< 3"),
];

const LIMITS: [&str; 5] = [
    "fdatasync_p50_us",
    "fdatasync_p99_us",
    "sequential_256_kib_write_and_fdatasync_mb_per_s",
    "sequential_read_mb_per_s",
    "sequential_cached_read_mb_per_s",
];

const FIGURES: [&str; 40] = [
    "append_p50_us",
    "append_p99_us",
    "commits_per_s_64_writers",
    "fjall_commits_per_s_64_writers",
    "commit_p50_us_64_writers",
    "commit_p99_us_64_writers",
    "group_p50_us_64_writers",
    "group_p99_us_64_writers",
    "fjall_group_p50_us_64_writers",
    "fjall_group_p99_us_64_writers",
    "fjall_writers_commits_per_s_64_writers",
    "fjall_commit_p50_us_64_writers",
    "fjall_commit_p99_us_64_writers",
    "flushes_64_writers",
    "commits_per_s_1000_writers",
    "fjall_commits_per_s_1000_writers",
    "commit_p50_us_1000_writers",
    "commit_p99_us_1000_writers",
    "group_p50_us_1000_writers",
    "group_p99_us_1000_writers",
    "fjall_group_p50_us_1000_writers",
    "fjall_group_p99_us_1000_writers",
    "fjall_writers_commits_per_s_1000_writers",
    "fjall_commit_p50_us_1000_writers",
    "fjall_commit_p99_us_1000_writers",
    "flushes_1000_writers",
    "written_bytes_per_committed_byte_64_writers",
    "written_bytes_per_committed_byte_events",
    "events_mb_per_s",
    "catch_up_read_mb_per_s",
    "catch_up_cached_read_mb_per_s",
    "events_1_in_flight_mb_per_s",
    "unflushed_reads_per_s",
    "cached_reads_per_s",
    "recovered_log_mb",
    "recovery_s",
    "recovery_mb_per_s",
    "reopen_keys",
    "loaded_process_resident_mb",
    "reopen_replayed_log_mb",
];

const RUN_FIGURES: [&str; 3] = ["bench_process_resident_mb", "measurement_s", "rounds"];

/// Only where the folder is on one disk.
const DISK_FIGURES: [&str; 2] = [
    "device_bytes_per_committed_byte_64_writers",
    "device_bytes_per_committed_byte_events",
];

const RUNTIME_GOALS: [Goal; 4] = [
    ("commands_per_s_1_partition", "1/s", ">= 150000"),
    ("commands_per_s_64_partitions", "1/s", ">= 150000"),
    ("timer_lateness_p99", "ms", "< 20"),
    ("longest_turn", "ms", "< 5"),
];

const RUNTIME_LIMITS: [&str; 4] = [
    "fdatasync_p50_us",
    "fdatasync_p99_us",
    "sequential_256_kib_write_and_fdatasync_mb_per_s",
    "longest_time_without_processor_ms",
];

const RUNTIME_FIGURES: [&str; 34] = [
    "command_p50_us_1_partition",
    "command_p99_us_1_partition",
    "processor_us_per_command_1_partition",
    "commands_per_sync_1_partition",
    "rows_over_sequential_write_1_partition",
    "flushes_1_partition",
    "longest_turn_ms_1_partition",
    "longest_work_ms_1_partition",
    "command_p50_us_64_partitions",
    "command_p99_us_64_partitions",
    "processor_us_per_command_64_partitions",
    "commands_per_sync_64_partitions",
    "rows_over_sequential_write_64_partitions",
    "flushes_64_partitions",
    "longest_turn_ms_64_partitions",
    "longest_work_ms_64_partitions",
    "pending_timers",
    "disk_bytes_per_pending_timer",
    "resident_bytes_per_pending_timer",
    "resident_mb_without_timers",
    "timer_handled_late_ms_p50",
    "timer_handled_late_ms_p99",
    "timer_handled_late_ms_max",
    "timer_durable_late_ms_p50",
    "timer_durable_late_ms_p99",
    "timer_durable_late_ms_max",
    "timers_per_s",
    "longest_turn_ms_timers",
    "longest_work_ms_timers",
    "outbox_messages_per_s",
    "outbox_messages_per_sync",
    "processor_us_per_outbox_message",
    "longest_turn_ms_outbox",
    "longest_work_ms_outbox",
];

const COLLECTION_GOALS: [Goal; 2] = [
    ("commit_p50_over_fdatasync_p50", "ratio", "<= 2.5"),
    ("point_reads_per_s_per_core", "reads/s", ">= 1000000"),
];

const COLLECTION_LIMITS: [&str; 5] = [
    "fdatasync_p50_us",
    "fdatasync_p99_us",
    "fdatasync_per_s",
    "hash_map_reads_per_s",
    "ordered_map_rows_per_s",
];

const COLLECTION_FIGURES: [&str; 17] = [
    "commit_p50_us",
    "commit_p99_us",
    "ledger_commit_p50_us",
    "commit_p50_over_ledger_commit_p50",
    "volatile_commit_p50_us",
    "volatile_commit_p99_us",
    "hot_row_changes_per_s_64_clients",
    "hot_row_changes_over_fdatasync",
    "volatile_hot_row_changes_per_s_64_clients",
    "point_reads_over_hash_map",
    "single_read_transactions_per_s_per_core",
    "scan_rows_per_s",
    "volatile_scan_rows_per_s",
    "memory_per_million_rows_mb",
    "volatile_memory_per_million_rows_mb",
    "measurement_s",
    "rounds",
];

/// Each with 64 and with 1,000 clients.
const CLIENT_FIGURES: [&str; 8] = [
    "transactions_per_s",
    "commits_per_sync",
    "commit_p50_us",
    "commit_p99_us",
    "ledger_commits_per_s",
    "transactions_over_ledger_commits",
    "volatile_transactions_per_s",
    "volatile_commit_p99_us",
];

fn steadfast(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments).output().unwrap()
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object.as_object().unwrap().keys().collect();
    keys.sort();
    keys.into_iter().map(String::as_str).collect()
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names
}

fn assert_positive(values: &Value) {
    for (name, value) in values.as_object().unwrap() {
        let value = value.as_f64().unwrap_or(f64::NAN);
        // A short run may not flush.
        let is_count = name.starts_with("flushes_");
        assert!(value.is_finite(), "{name} is {value}");
        assert!(
            value > 0.0 || (is_count && value == 0.0),
            "{name} is {value}"
        );
    }
}

/// Runs an area quickly; its report, after what all reports have in common.
fn quick_report(area: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let output = steadfast(&["bench", area, "--quick", "--json", "--dir", dir]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        keys(&report),
        ["area", "figures", "goals", "limits", "machine"]
    );
    assert_eq!(report["area"], area);
    let machine = &report["machine"];
    let expected = [
        "cores",
        "file_system",
        "kernel",
        "memory_bytes",
        "processor",
    ];
    assert_eq!(keys(machine), expected);
    assert!(machine["cores"].as_u64().unwrap() > 0);
    assert!(machine["memory_bytes"].as_u64().unwrap() > 0);
    assert!(machine["kernel"].is_string() && machine["file_system"].is_string());
    assert_positive(&report["limits"]);
    assert_positive(&report["figures"]);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    report
}

#[test]
fn a_quick_run_reports_everything_in_the_agreed_form() {
    let report = quick_report("storage");
    assert_eq!(keys(&report["limits"]), sorted(LIMITS));
    let figures = FIGURES.into_iter().chain(RUN_FIGURES);
    let mut found = keys(&report["figures"]);
    found.retain(|name| !DISK_FIGURES.contains(name));
    assert_eq!(found, sorted(figures));
    check_goals(report["goals"].as_array().unwrap(), &GOALS);
}

#[test]
fn a_quick_run_of_the_runtime_reports_everything() {
    let report = quick_report("runtime");
    assert_eq!(keys(&report["limits"]), sorted(RUNTIME_LIMITS));
    let figures = RUNTIME_FIGURES.into_iter().chain(RUN_FIGURES);
    assert_eq!(keys(&report["figures"]), sorted(figures));
    check_goals(report["goals"].as_array().unwrap(), &RUNTIME_GOALS);
}

#[test]
fn a_quick_run_of_the_task_hubs_reports_every_goal() {
    let report = quick_report("durable");
    let goals = report["goals"].as_array().unwrap();
    let names: Vec<_> = goals
        .iter()
        .map(|goal| goal["name"].as_str().unwrap())
        .collect();
    let expected = [
        "signals_per_s_1_keys",
        "signals_per_s_1000_keys",
        "call_p50_over_fdatasync",
        "transfers_per_s",
        "grpc_work_items_per_s",
        "resident_per_idle_entity",
        "restart",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_quick_run_of_the_events_reports_everything() {
    let report = quick_report("events");
    let limits = [
        "fdatasync_p50_us",
        "fdatasync_p99_us",
        "disk_synced_mb_s",
        "loopback_mb_s",
    ];
    assert_eq!(keys(&report["limits"]), sorted(limits));
    let figures = [
        "in_events_per_s",
        "out_events_per_s",
        "server_resident_mb",
        "in_of_disk_synced_x",
        "out_of_loopback_x",
        "paced_mb_s",
        "ack_p50_ms",
        "idle_consumers",
        "small_events",
        "small_events_per_s",
        "resident_mb_with_small_events",
    ];
    // Redis is measured where it is installed.
    let mut found = keys(&report["figures"]);
    found.retain(|name| !name.starts_with("redis_"));
    assert_eq!(found, sorted(figures));
    let mut goals = report["goals"].as_array().unwrap().clone();
    goals.retain(|goal| goal["name"] != "in_of_redis_streams");
    let expected = [
        ("in", "MB/s", ">= 100"),
        ("out", "MB/s", ">= 200"),
        ("ack_p99", "ms", "< 20"),
        ("idle_consumers_cpu", "%", "< 1"),
        ("resident_per_idle_consumer", "KB", "< 20"),
        ("growth_in_second_half", "MB", "< 32"),
        ("restart", "s", "< 2"),
    ];
    let found = goals.iter().map(|goal| {
        let text = |name: &str| goal[name].as_str().unwrap();
        (text("name"), text("unit"), text("goal"))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
    for goal in &goals {
        // A waiting process may need no CPU at all, and memory need not grow.
        let value = goal["value"].as_f64().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{goal}");
        assert!(goal["met"].is_boolean());
    }
}

#[test]
fn a_quick_run_of_the_jobs_reports_every_goal() {
    let report = quick_report("jobs");
    let goals = report["goals"].as_array().unwrap();
    // BullMQ is measured where it and Redis are installed.
    let names = goals.iter().map(|goal| goal["name"].as_str().unwrap());
    let names: Vec<_> = names.filter(|name| !name.ends_with("bullmq")).collect();
    let expected = [
        "dispatches",
        "burst_drained",
        "canary_late_p99",
        "late_p50",
        "late_p99",
        "restart",
        "resident_per_idle_job",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_quick_run_of_the_hubs_reports_every_goal() {
    let report = quick_report("realtime");
    let goals = report["goals"].as_array().unwrap();
    // Peers are measured where node has them.
    let names = goals.iter().map(|goal| goal["name"].as_str().unwrap());
    let names: Vec<_> = names.filter(|name| !name.contains("_of_")).collect();
    let expected = [
        "memory_per_idle_connection",
        "move_all_clients",
        "clients_lost_by_moving",
    ];
    assert_eq!(names, expected);
    let figures = [
        "connects_per_s",
        "deliveries_per_cpu_s_50",
        "deliveries_per_cpu_s_200",
        "echoes_per_s",
        "echo_p50_us",
        "echo_p99_us",
        "moved_clients",
    ];
    for name in figures {
        assert!(report["figures"][name].as_f64().unwrap() > 0.0, "{name}");
    }
    let lost = goals.iter().find(|goal| goal["name"] == expected[2]);
    assert_eq!(lost.unwrap()["value"], 0.0);
}

#[test]
fn the_table_names_every_goal_and_says_whether_it_was_met() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let output = steadfast(&["bench", "runtime", "--quick", "--dir", dir]);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    for (name, _, goal) in RUNTIME_GOALS {
        let line = table.lines().find(|line| line.trim().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {table}"));
        assert!(line.contains(goal), "{line}");
        assert!(line.ends_with("met") || line.ends_with("MISSED"), "{line}");
    }
    assert!(table.contains("numbers are not reliable"), "{table}");
}

#[test]
fn a_quick_run_of_collections_reports_everything() {
    let report = quick_report("collections");
    assert_eq!(keys(&report["limits"]), sorted(COLLECTION_LIMITS));
    let with = |clients: &str| CLIENT_FIGURES.map(|name| format!("{name}_{clients}_clients"));
    let (few, many) = (with("64"), with("1000"));
    let by_clients = few.iter().chain(&many).map(String::as_str);
    let figures = COLLECTION_FIGURES.into_iter().chain(by_clients);
    assert_eq!(keys(&report["figures"]), sorted(figures));
    check_goals(report["goals"].as_array().unwrap(), &COLLECTION_GOALS);
    // Each commit of a hot row waits for the one before it; all others share syncs.
    assert!(report["figures"]["commits_per_sync_64_clients"].as_f64() > Some(1.0));
}

fn check_goals(goals: &[Value], expected: &[Goal]) {
    let form = ["goal", "met", "name", "unit", "value"];
    assert!(goals.iter().all(|goal| keys(goal) == form));
    let text = |goal: &Value, key: &str| goal[key].as_str().unwrap().to_string();
    let found: Vec<_> = goals
        .iter()
        .map(|goal| (text(goal, "name"), text(goal, "unit"), text(goal, "goal")))
        .collect();
    let owned = |(a, b, c): &Goal| (a.to_string(), b.to_string(), c.to_string());
    assert_eq!(found, expected.iter().map(owned).collect::<Vec<_>>());
    for goal in goals {
        let value = goal["value"].as_f64().unwrap();
        assert!(value.is_finite() && value > 0.0, "{goal}");
        assert!(goal["met"].is_boolean());
    }
}

#[test]
fn what_is_not_understood_exits_with_2() {
    for arguments in [
        &["dance"][..],
        &["bench", "dance"],
        &["bench", "storage", "--seconds", "0"],
        &["bench", "runtime", "--seconds", "0"],
        &["bench", "collections", "--seconds", "0"],
        &[],
    ] {
        let output = steadfast(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_folder_that_does_not_exist_exits_with_1() {
    let output = steadfast(&["bench", "storage", "--quick", "--dir", "/does/not/exist"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("/does/not/exist"), "{errors}");
}

#[test]
fn help_and_version_are_there() {
    let help = steadfast(&["bench", "storage", "--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("--output") && help.contains("--dir"),
        "{help}"
    );
    let version = steadfast(&["--version"]);
    let expected = format!("steadfast {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);
}
