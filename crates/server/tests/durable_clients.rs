//! Unmodified SDKs of Durable Task, scenario by scenario.
//!
//! The scenarios stand in `interop/durable-python`, `interop/durable-node`,
//! `interop/java/durable` and `interop/go`. What they need is installed by
//! `cargo xtask test --only clients`, which also says where.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod running;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use running::encrypted::{certificate, encrypted_by};
use running::{PATIENCE, Server, Start, finish, said};
use serde_json::json;
use steadfast_harness::clients::{go, java, javascript, python, show};
use steadfast_harness::{Process, reserve_port};

/// The Blob account of `steadfast dev`.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[derive(Debug)]
enum Client {
    /// durabletask 1.12.0.
    Python,
    /// durabletask.azuremanaged 1.12.0, which names its task hub.
    Managed,
    /// @microsoft/durabletask-js 0.4.0, on Node 22.
    Node,
    /// durabletask-client 1.5.0 of Java.
    Java,
    /// durabletask-go 0.6.0.
    Go,
}

use Client::{Go, Java, Managed, Node, Python};

impl Client {
    fn command(&self, server: &Server) -> Command {
        self.command_with(server, None)
    }

    /// The same for a server that is encrypted by this certificate.
    fn command_with(&self, server: &Server, certificate: Option<&Path>) -> Command {
        let is_managed = matches!(self, Managed);
        let mut command = match self {
            Python | Managed => python("durable", "durable-python/run.py"),
            Node => javascript("durable/run.mjs"),
            Java => java("durable", "steadfast.durable.Run"),
            Go => go("durable"),
        };
        let mut told = json!({
            "port": port(server), "managed": is_managed, "blob": server.port_of("blob"),
            "account": ACCOUNT, "account_key": ACCOUNT_KEY,
        });
        if let Some(certificate) = certificate {
            told["certificate"] = json!(certificate);
            // The gRPC libraries of Python and JavaScript read it.
            command.env("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", certificate);
        }
        command.arg(told.to_string());
        command
    }
}

/// The port that the SDKs are told.
fn port(server: &Server) -> u16 {
    let (_, status) = server.get("/v1/status");
    let addresses = status["addresses"].as_array().unwrap();
    let durable = addresses.iter().find(|own| own[0] == "durable").unwrap();
    let url = durable[1].as_str().unwrap();
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Runs scenarios of clients, all against one server.
fn run(scenarios: &[(Client, &[&str])]) {
    let server = Start::new("dev").ready();
    for (client, names) in scenarios {
        let mut command = client.command(&server);
        command.args(*names);
        let output = finish_slowly(command);
        let (code, out, err) = said(&output);
        assert_eq!(code, 0, "{names:?}: {out}{err}{}", server.log());
        show(&format!("durable_clients {client:?}"), &output.stdout);
    }
}

#[test]
fn the_sdks_of_durable_task_trust_a_certificate_of_the_user() {
    let server = encrypted_by(&certificate(), Start::new("dev"));
    let trusted = server.data().with_file_name("tls.pem");
    let scenarios = [
        (Python, "falsy_values_survive"),
        (Managed, "falsy_values_survive"),
        (Node, "falsyValuesSurvive"),
        (Java, "falsyValuesSurvive"),
        (Go, "falsy_values_survive"),
    ];
    for (client, scenario) in scenarios {
        let mut command = client.command_with(&server, Some(&trusted));
        command.arg(scenario);
        let output = finish_slowly(command);
        let (code, out, err) = said(&output);
        assert_eq!(code, 0, "{client:?}: {out}{err}{}", server.log());
        show(&format!("durable_clients {client:?}"), &output.stdout);
    }
}

/// Runs a program until it ends; a scenario has its own patience.
fn finish_slowly(mut command: Command) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    command.stdout(file(&out)).stderr(file(&err));
    let status = command.status().expect("the client is installed");
    std::process::Output {
        status,
        stdout: std::fs::read(out).unwrap(),
        stderr: std::fs::read(err).unwrap(),
    }
}

/// One test per line: its name, and the scenarios that it runs.
macro_rules! scenarios {
    ($($name:ident: $(($client:expr, $($scenario:literal),+)),+;)+) => {
        $(#[test]
        fn $name() {
            run(&[$(($client, &[$($scenario),+])),+]);
        })+
    };
}

scenarios! {
    durable_04_task_hubs_do_not_see_one_another: (Python, "hubs_do_not_see_one_another"), (Go, "hubs_do_not_see_one_another");
    durable_08_a_thousand_activities_join: (Python, "fan_out_of_a_thousand"), (Node, "fanOutOfAThousand"), (Go, "fan_out_of_a_thousand");
    durable_09_falsy_values_survive: (Python, "falsy_values_survive"), (Node, "falsyValuesSurvive"), (Go, "falsy_values_survive");
    durable_10_a_start_is_waited_for: (Python, "a_start_is_waited_for"), (Go, "a_start_is_waited_for");
    durable_11_ids_are_taken_once: (Python, "ids_are_taken_once", "bad_ids_are_refused"), (Node, "idsAreTakenOnce"), (Go, "ids_are_taken_once", "bad_ids_are_refused");
    durable_12_policies_replace_listed_states_only: (Python, "policies_replace_listed_states_only"), (Go, "policies_replace_listed_states_only");
    durable_13_forbidden_policies_are_refused: (Python, "forbidden_policies_are_refused");
    durable_14_a_delayed_start_is_not_early: (Python, "delayed_start_is_not_early"), (Go, "delayed_start_is_not_early");
    durable_15_timers_fire_in_time: (Python, "timers_fire_in_time"), (Node, "timersFireInTime"), (Go, "timers_fire_in_time");
    durable_16_events_before_the_wait_are_kept: (Python, "events_before_the_wait_are_kept", "a_race_of_timer_and_event", "orchestrations_send_events"), (Node, "eventsArriveInOrder", "aRaceOfTimerAndEvent"), (Go, "events_before_the_wait_are_kept", "a_race_of_timer_and_event");
    durable_17_continue_as_new_keeps_all_events: (Python, "a_thousand_events_across_continue_as_new"), (Node, "eventsAcrossContinueAsNew"), (Go, "a_thousand_events_across_continue_as_new");
    durable_18_late_results_stay_with_their_execution: (Python, "late_results_stay_with_their_execution"), (Go, "late_results_stay_with_their_execution");
    durable_19_children_report_to_their_parent: (Python, "children_report_to_their_parent"), (Node, "childrenReportToTheirParent"), (Go, "children_report_to_their_parent");
    durable_20_default_ids_of_children_do_not_collide: (Python, "default_ids_of_children_do_not_collide"), (Go, "default_ids_of_children_do_not_collide");
    durable_21_a_retried_child_starts_afresh: (Python, "a_retried_child_starts_afresh"), (Go, "a_retried_child_starts_afresh");
    durable_22_retries_reuse_the_action_id: (Python, "retries_reuse_the_action_id"), (Node, "activitiesAreRetried"), (Go, "retries_reuse_the_action_id");
    durable_23_terminate_needs_no_worker: (Python, "terminate_needs_no_worker"), (Node, "terminateNeedsNoWorker"), (Go, "terminate_needs_no_worker");
    durable_24_terminate_reaches_grandchildren_if_told: (Python, "terminate_reaches_grandchildren_if_told"), (Go, "terminate_reaches_grandchildren_if_told");
    durable_25_suspended_instances_miss_nothing: (Python, "suspended_instances_run_nothing_and_miss_nothing"), (Node, "suspendAndResume"), (Go, "suspended_instances_run_nothing_and_miss_nothing");
    durable_26_custom_status_follows: (Python, "custom_status_follows"), (Go, "custom_status_follows");
    durable_27_rewind_runs_only_what_failed: (Python, "rewind_runs_only_what_failed", "rewind_reaches_children", "rewind_makes_purged_children_anew"), (Node, "rewindRunsWhatFailed");
    durable_28_only_failed_instances_are_rewound: (Python, "only_failed_instances_are_rewound");
    durable_29_restart_keeps_the_input: (Python, "restart_keeps_the_input"), (Node, "restartKeepsTheInput");
    durable_30_purge_takes_what_has_ended: (Python, "purge_takes_what_has_ended"), (Node, "purgeTakesWhatHasEnded"), (Go, "purge_takes_what_has_ended");
    durable_31_queries_give_each_instance_once: (Python, "queries_give_each_instance_once", "ended_ids_are_listed_page_by_page"), (Node, "instancesAreListed");
    durable_32_histories_are_told_in_order: (Python, "histories_are_told_in_order"), (Node, "historiesAreToldInOrder");
    durable_33_only_children_have_parents: (Python, "only_children_have_parents");
    durable_35_work_waits_for_its_worker: (Python, "unknown_work_waits_for_its_worker");
    durable_42_signals_make_entities: (Python, "signals_make_entities", "calls_are_answered"), (Node, "entitiesAreSignalledAndCalled");
    durable_43_operations_run_one_at_a_time: (Python, "operations_run_one_at_a_time", "signals_run_in_order");
    durable_44_ten_thousand_signals: (Python, "ten_thousand_signals");
    durable_45_a_failing_operation_leaves_no_trace: (Python, "a_failing_operation_leaves_no_trace");
    durable_46_failed_calls_are_told: (Python, "a_failing_operation_leaves_no_trace"), (Node, "entitiesAreSignalledAndCalled");
    durable_47_entities_signal_and_start: (Python, "entities_signal_and_start");
    durable_48_scheduled_signals_wait: (Python, "scheduled_signals_wait"), (Node, "scheduledSignalsWait");
    durable_49_deleted_entities_come_again: (Python, "deleted_entities_come_again");
    durable_50_names_fold_and_keys_do_not: (Python, "names_fold_and_keys_do_not");
    durable_51_long_ids_are_refused: (Python, "long_ids_are_refused");
    durable_52_entities_are_found: (Python, "entities_are_found");
    durable_53_others_wait_for_a_lock: (Python, "others_wait_until_a_lock_is_released"), (Node, "locksKeepOthersOut");
    durable_54_the_holder_of_a_lock_is_named: (Python, "the_holder_of_a_lock_is_named"), (Node, "locksKeepOthersOut");
    durable_55_opposite_orders_do_not_deadlock: (Python, "opposite_orders_do_not_deadlock"), (Node, "moneyIsTransferred");
    durable_58_every_end_releases_locks: (Python, "every_end_releases_locks");
    durable_61_rules_of_critical_sections_hold: (Python, "rules_of_critical_sections_hold");
    large_payloads_are_stored_as_blobs: (Python, "large_payloads_are_stored_as_blobs", "large_states_of_entities_are_stored_as_blobs", "payloads_above_a_single_put_are_stored_in_blocks");
    the_seeds_bank_transfer: (Python, "money_is_transferred"), (Node, "moneyIsTransferred");
    plain_orchestrations: (Python, "activities_in_sequence", "many_at_once", "guids_do_not_repeat", "versions_travel", "failures_are_told"), (Node, "activitiesInSequence"), (Go, "activities_in_sequence", "many_at_once", "failures_are_told");
    unknown_instances_are_named_as_such: (Python, "unknown_instances_are_named_as_such"), (Go, "unknown_instances_are_named_as_such");
    java_runs_orchestrations: (Java, "activitiesInSequence", "manyAtOnce", "fanOutOfAThousand", "falsyValuesSurvive", "timersFireInTime", "eventsArriveInOrder", "eventsBeforeTheWaitAreKept", "continuedAsNew", "orchestrationsSendEvents", "aRaceOfTimerAndEvent", "eventsThatDoNotCome", "lateResultsStayWithTheirExecution", "activitiesAreRetried", "retriesByHandler", "failuresAreTold", "customStatusFollows", "guidsDoNotRepeat");
    java_looks_after_instances: (Java, "childrenReportToTheirParent", "childrenFanOut", "defaultIdsOfChildrenDoNotCollide", "aRetriedChildStartsAfresh", "hubsDoNotSeeOneAnother", "idsAreTakenOnce", "badIdsAreRefused", "unknownInstancesAreNamedAsSuch", "aStartIsWaitedFor", "delayedStartIsNotEarly", "terminateNeedsNoWorker", "suspendAndResume", "restartKeepsTheInput", "restartsOfEveryEnd", "queriesGiveEachInstanceOnce", "purgeTakesWhatHasEnded", "instancesAreListed");
    java_runs_what_vendors_test_in_other_languages: (Java, "nothingToDo", "failuresAreMadeGood", "joinsThatFail", "joinsOfJoins", "eventsOfThreeNames", "theFirstOfThreeWins", "eventsBetweenOrchestrations", "undeliverableEventsAreDropped", "timersAreReplayed", "roundsAndGenerations", "retriesMultiply", "retriesEndInTime", "retriesByPolicy", "guidsAreTheSameInReplays", "onlyNewTurnsAreNoted", "falsyValuesOfChildren");
    go_runs_what_vendors_test_in_other_languages: (Go, "nothing_to_do", "failures_are_made_good", "joins_that_fail", "children_fan_out", "events_of_three_names", "five_rounds", "timers_are_replayed", "rounds_and_generations", "purged_families", "retries_multiply", "retries_end_in_time", "retries_by_policy", "retries_by_handler", "only_new_turns_are_noted", "falsy_values_of_children");
    managed_clients_name_their_task_hub: (Managed, "activities_in_sequence", "children_report_to_their_parent", "signals_make_entities", "money_is_transferred", "histories_are_told_in_order");
}

fn worker(said: &str) -> Process {
    let mut command = python("durable", "durable-python/bank.py");
    command.args(["work", said]);
    let mut worker = Process::spawn(command).unwrap();
    worker.wait_for(|line| line == "at work", PATIENCE).unwrap();
    worker
}

#[test]
fn durable_60_no_money_is_lost_when_server_and_worker_are_killed() {
    let port = reserve_port().unwrap();
    let mut server = Start::new("dev")
        .set(&format!("durable.port={port}"))
        .ready();
    let said = json!({"port": port}).to_string();
    let mut worker = worker(&said);
    let mut command = python("durable", "durable-python/bank.py");
    command.args(["transfers", &said, "bank", "50"]);
    let mut transfers = Process::spawn(command).unwrap();
    let begun = |transfers: &mut Process| {
        for _ in 0..12 {
            transfers
                .wait_for(|line| line == "begun", PATIENCE)
                .unwrap();
        }
    };
    transfers
        .wait_for(|line| line == "paid in", PATIENCE)
        .unwrap();
    begun(&mut transfers);
    server.process.restart().unwrap();
    begun(&mut transfers);
    worker.restart().unwrap();
    begun(&mut transfers);
    server.process.restart().unwrap();
    worker.restart().unwrap();
    let is_whole = |line: &str| line == "no money was lost";
    let whole = transfers.wait_for(is_whole, 3 * PATIENCE);
    whole.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    assert!(transfers.wait(Duration::from_secs(30)).unwrap().success());
    let mut command = running::steadfast(server.folder.path());
    let lines = server
        .process
        .wait_for(|line| line.contains("http://"), PATIENCE);
    let url = lines.unwrap().split_whitespace().last().unwrap().to_owned();
    command
        .env("STEADFAST_URL", url)
        .args(["lock", "list", "--json"]);
    let (code, out, err) = said_of(command);
    assert_eq!((code, out.contains("holder")), (0, false), "{out}{err}");
}

/// A worker of Java comes back by itself when its server does, after five seconds.
#[test]
fn no_order_of_java_is_lost_when_server_and_worker_are_killed() {
    let port = reserve_port().unwrap();
    let mut server = Start::new("dev")
        .set(&format!("durable.port={port}"))
        .ready();
    let said = json!({"port": port}).to_string();
    let orders = |arguments: &[&str]| {
        let mut command = java("durable", "steadfast.durable.Orders");
        command.args(arguments);
        Process::spawn(command).unwrap()
    };
    let mut worker = orders(&["work", &said]);
    worker.wait_for(|line| line == "at work", PATIENCE).unwrap();
    let mut client = orders(&["place", &said, "order", "40"]);
    let begun = |client: &mut Process| {
        for _ in 0..10 {
            client.wait_for(|line| line == "begun", PATIENCE).unwrap();
        }
    };
    begun(&mut client);
    server.process.restart().unwrap();
    begun(&mut client);
    worker.restart().unwrap();
    begun(&mut client);
    server.process.restart().unwrap();
    let is_whole = |line: &str| line == "no order was lost";
    let whole = client.wait_for(is_whole, 3 * PATIENCE);
    whole.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    assert!(client.wait(Duration::from_secs(30)).unwrap().success());
}

/// Orchestrations of Go: activities, timers, children and events, through kills of the
/// server and of the worker.
#[test]
fn totals_of_go_are_right_when_server_and_worker_are_killed() {
    let port = reserve_port().unwrap();
    let mut server = Start::new("dev")
        .set(&format!("durable.port={port}"))
        .ready();
    let said = json!({"port": port}).to_string();
    let mut command = go("work");
    command.arg(&said);
    let mut worker = Process::spawn(command).unwrap();
    worker.wait_for(|line| line == "at work", PATIENCE).unwrap();
    let mut command = go("totals");
    command.args([&said, "totals", "50"]);
    let mut totals = Process::spawn(command).unwrap();
    let begun = |totals: &mut Process| {
        for _ in 0..12 {
            totals.wait_for(|line| line == "begun", PATIENCE).unwrap();
        }
    };
    begun(&mut totals);
    server.process.restart().unwrap();
    begun(&mut totals);
    worker.restart().unwrap();
    begun(&mut totals);
    server.process.restart().unwrap();
    worker.restart().unwrap();
    let is_right = |line: &str| line == "all totals are right";
    let right = totals.wait_for(is_right, 3 * PATIENCE);
    right.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    assert!(totals.wait(Duration::from_secs(30)).unwrap().success());
}

/// No worker says what it has code for: the SDKs of Java and Go have no filters. What a worker
/// has no code for goes on to another one.
#[test]
fn one_orchestration_has_activities_in_four_languages() {
    let server = Start::new("dev")
        .set("log.level=info,steadfast_durable=debug")
        .ready();
    let told = json!({"port": port(&server)}).to_string();
    let of_java = |what: &str| {
        let mut command = java("durable", "steadfast.durable.Languages");
        command.arg(what);
        command
    };
    let workers = [
        python("durable", "durable-python/languages.py"),
        javascript("durable/languages.mjs"),
        of_java("work"),
        go("languages"),
    ];
    let workers = workers.map(|mut command| {
        command.arg(&told);
        Process::spawn(command).unwrap()
    });
    running::until("four workers", || {
        let joined = server.log().matches("durable.worker_joined").count();
        (joined >= workers.len()).then_some(())
    });
    let mut command = of_java("run");
    command.args([&told, "5"]);
    let (code, out, err) = said(&finish_slowly(command));
    assert_eq!(code, 0, "{out}{err}{}", server.log());
    let languages = ["python", "javascript", "java", "go"];
    let expected = (0..5).flat_map(|round| languages.map(|own| format!("{own} {round}")));
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
}

fn said_of(command: Command) -> (i32, String, String) {
    said(&finish(command))
}
