//! Child processes: output, signals, restarts.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use steadfast_harness::Process;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn shell(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::spawn(command).unwrap()
}

fn runs(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

#[test]
fn lines_are_read_in_order() {
    let mut process = shell("echo one; echo two; echo three; exit 3");
    assert_eq!(process.next_line(LONG).unwrap(), "one");
    let line = process.wait_for(|line| line.starts_with("th"), LONG);
    assert_eq!(line.unwrap(), "three");
    assert_eq!(process.wait(LONG).unwrap().code(), Some(3));
    let ended = process.next_line(LONG).unwrap_err().to_string();
    assert!(ended.contains("the output has ended"), "{ended}");
}

#[test]
fn a_line_that_does_not_come_is_an_error_with_the_others() {
    let mut process = shell("echo other; exec cat");
    let missing = process.wait_for(|line| line == "ready", SHORT);
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("other"), "{missing}");
    assert!(process.wait(SHORT).is_err());
}

#[test]
fn killed_processes_are_gone() {
    let mut process = shell("exec cat");
    let id = process.id();
    process.kill().unwrap();
    process.kill().unwrap();
    assert!(!runs(id));
    assert_eq!(process.wait(LONG).unwrap().signal(), Some(9));
    assert!(process.terminate().is_err());
}

#[test]
fn dropped_processes_are_gone() {
    let process = shell("exec cat");
    let id = process.id();
    drop(process);
    assert!(!runs(id));
}

#[test]
fn termination_can_be_handled() {
    let mut process = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do read x; done");
    process.wait_for(|line| line == "ready", LONG).unwrap();
    process.terminate().unwrap();
    // A shell that handles the signal before it has read the line reads it no more.
    let _ = process.write_line("wake");
    process.wait_for(|line| line == "bye", LONG).unwrap();
    assert!(process.wait(LONG).unwrap().success());
}

#[test]
fn frozen_processes_go_on_when_thawed() {
    let mut process = shell("exec cat");
    process.write_line("first").unwrap();
    assert_eq!(process.next_line(LONG).unwrap(), "first");
    process.freeze().unwrap();
    process.write_line("second").unwrap();
    assert!(process.next_line(SHORT).is_err());
    process.thaw().unwrap();
    assert_eq!(process.next_line(LONG).unwrap(), "second");
}

#[test]
fn frozen_processes_can_be_killed() {
    let mut process = shell("exec sleep 1000");
    process.freeze().unwrap();
    process.kill().unwrap();
    assert!(!runs(process.id()));
}

#[test]
fn restarts_run_the_same_command() {
    let mut process = shell("echo $$; exec cat");
    let first: u32 = process.next_line(LONG).unwrap().parse().unwrap();
    assert_eq!(first, process.id());
    process.restart().unwrap();
    let second: u32 = process.next_line(LONG).unwrap().parse().unwrap();
    assert_eq!(second, process.id());
    assert_ne!(first, second);
    assert!(!runs(first));
}

#[test]
fn a_missing_program_is_named() {
    let error = Process::spawn(Command::new("no-such-program")).err();
    let error = format!("{:#}", error.unwrap());
    assert!(error.contains("no-such-program"), "{error}");
}
