//! A server starts at once and costs nothing when idle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use steadfast_harness::Process;

use crate::running::{self, Server, Start};

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How often each thread of a process was woken so far.
fn wake_ups(server: &Server) -> BTreeMap<PathBuf, u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
    let woken = |task: fs::DirEntry| {
        // A thread may end meanwhile.
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        Some((task.path(), field(&status, "voluntary_ctxt_switches:")))
    };
    tasks.filter_map(|task| woken(task.unwrap())).collect()
}

/// How often the threads were woken since.
fn woken_since(server: &Server, before: &BTreeMap<PathBuf, u64>) -> u64 {
    let now = wake_ups(server).into_iter();
    let more = now.map(|(thread, count)| count - before.get(&thread).copied().unwrap_or(0));
    more.sum()
}

/// Bytes that a process has had written so far, in files and caches.
fn written(server: &Server) -> (u64, u64) {
    let io = fs::read_to_string(format!("/proc/{}/io", server.process.id())).unwrap();
    (field(&io, "write_bytes:"), field(&io, "wchar:"))
}

/// When each file below a folder was changed last, and its length.
fn files(folder: &Path, found: &mut BTreeMap<String, (SystemTime, u64)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let about = entry.metadata().unwrap();
        if about.is_dir() {
            files(&entry.path(), found)
        } else {
            let path = entry.path().display().to_string();
            found.insert(path, (about.modified().unwrap(), about.len()));
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a process starts in real time")]
fn an_empty_folder_is_ready_in_under_a_second() {
    // The machine may be busy with other tests: the best of some starts counts.
    let times = (0..5).map(|_| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = running::steadfast(folder.path());
        command.args(["dev", "--set", "http.port=0"]);
        let began = std::time::Instant::now();
        let mut process = Process::spawn(command).unwrap();
        process
            .wait_for(|line| line.contains("is ready"), running::PATIENCE)
            .unwrap();
        began.elapsed()
    });
    let best = times.min().unwrap();
    println!("ready after {best:?}");
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[test]
fn an_idle_server_has_under_60_mb_makes_no_write_and_is_hardly_woken() {
    let server = Start::new("dev").ready();
    // What the start has begun is over when nothing changes any more.
    let mut before = (wake_ups(&server), written(&server));
    running::until("it calms down", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = (wake_ups(&server), written(&server));
        let is_calm = before == now;
        before = now;
        is_calm.then_some(())
    });
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let resident_kb = field(&status, "VmRSS:");
    let (mut files_before, mut files_after) = (BTreeMap::new(), BTreeMap::new());
    files(server.folder.path(), &mut files_before);
    let (woken, bytes) = (wake_ups(&server), written(&server));
    let seconds = 5;
    std::thread::sleep(Duration::from_secs(seconds));
    let (woken, bytes_after) = (woken_since(&server, &woken), written(&server));
    files(server.folder.path(), &mut files_after);
    println!("{resident_kb} kB, {woken} wake-ups in {seconds} s");
    assert!(resident_kb < 60_000, "{resident_kb} kB");
    assert_eq!(bytes, bytes_after);
    assert_eq!(files_before, files_after);
    assert!(woken <= 5 * seconds, "{woken} wake-ups in {seconds} s");
}
