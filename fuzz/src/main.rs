//! Runs one target under libFuzzer.
//!
//! `STEADFAST_FUZZ_TARGET` names the target, or is `list`; the arguments are those of
//! libFuzzer. The seeds are written into the folder `STEADFAST_FUZZ_SEEDS`, if it is set.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use steadfast_fuzz::{TARGETS, Target, find};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("STEADFAST_FUZZ_TARGET").expect("STEADFAST_FUZZ_TARGET is set");
    if name == "list" {
        for target in TARGETS {
            println!("{}", target.name);
        }
        std::process::exit(0);
    }
    find(&name).expect("STEADFAST_FUZZ_TARGET names a target")
});

/// Finds the target, and writes its seeds before libFuzzer reads its folders.
fn prepare() {
    let seeds = TARGET.seeds;
    if let Some(folder) = std::env::var_os("STEADFAST_FUZZ_SEEDS") {
        for (index, seed) in seeds().into_iter().enumerate() {
            let file = Path::new(&folder).join(format!("seed-{index}"));
            std::fs::write(file, seed).expect("the seeds can be written");
        }
    }
}

fuzz_target!(
    init: prepare(),
    |input: &[u8]| (TARGET.run)(input)
);
