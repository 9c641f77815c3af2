//! CPU use and state of the process's threads.
//!
//! Read from `/proc`, so available on Linux only.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The interval between the two samples of a thread's CPU time.
const SAMPLE: Duration = Duration::from_millis(200);

/// Milliseconds of one tick in which Linux counts processor time for programs.
const TICK_MS: u64 = 10;

/// A sample of a thread.
struct ThreadSample {
    id: u64,
    name: String,
    /// `R` runs, `S` sleeps, `D` waits for a device.
    state: char,
    ran_ms: u64,
    /// The kernel function that it waits in, if readable.
    waits_in: String,
}

/// The threads with the most CPU time in the sample interval, as a text for the log: name,
/// id, state, CPU time of the interval and in all, and what it waits in.
pub(super) fn busiest(most: usize) -> String {
    let before = all();
    std::thread::sleep(SAMPLE);
    let mut threads: Vec<_> = all()
        .into_iter()
        .map(|thread| {
            let former = before.iter().find(|own| own.id == thread.id);
            let ran_ms = former.map_or(0, |own| thread.ran_ms.saturating_sub(own.ran_ms));
            (ran_ms, thread)
        })
        .collect();
    threads.sort_by_key(|(ran_ms, thread)| std::cmp::Reverse((*ran_ms, thread.ran_ms)));
    let sample = SAMPLE.as_millis();
    let shown = threads.iter().take(most).map(|(ran_ms, thread)| {
        let ThreadSample {
            id,
            name,
            state,
            ran_ms: whole_ms,
            waits_in,
        } = thread;
        format!("{name}/{id} {state} {ran_ms} of {sample} ms, {whole_ms} ms in all {waits_in}")
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn all() -> Vec<ThreadSample> {
    let Ok(folder) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let tasks = folder.filter_map(Result::ok);
    tasks.filter_map(|task| read(&task.path())).collect()
}

/// A thread, unless it has ended.
fn read(folder: &Path) -> Option<ThreadSample> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name is in brackets, and may have blanks and brackets in it.
    let (start, rest) = stat.rsplit_once(')')?;
    let (id, name) = start.split_once('(')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let waits_in = fs::read_to_string(folder.join("wchan")).unwrap_or_default();
    Some(ThreadSample {
        id: id.trim().parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        ran_ms: (ticks(11)? + ticks(12)?) * TICK_MS,
        waits_in: waits_in.trim_matches(['0', '\n']).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spins_is_shown_first() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};

        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let spinning = std::thread::Builder::new().name("spin (me)".to_owned());
        let spinning = spinning.spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // On a busy machine a thread may not run during the sample.
        let is_seen = |shown: &String| {
            let mut threads = shown.split("; ");
            threads.any(|own| own.starts_with("spin (me)/") && !own.contains(" 0 of "))
        };
        let mut looks = std::iter::repeat_with(|| busiest(100)).take(20);
        let shown = looks.find(is_seen).unwrap_or_default();
        is_over.store(true, Ordering::Relaxed);
        spinning.unwrap().join().unwrap();
        let mine = shown.split("; ").find(|own| own.starts_with("spin (me)/"));
        let mine = mine.unwrap_or_else(|| panic!("{shown}"));
        assert!(mine.contains(" R ") && !mine.contains(" 0 of "), "{mine}");
    }
}
