//! Puts the pages of error codes into the binary, for `steadfast explain`.
//!
//! It also compresses the line tables of a release binary. A panic reads them, so they are not
//! stripped; the other debug information is in `steadfast.dwp` beside the binary.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    compress_line_tables();
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let folder = Path::new(&root).join("../../docs/errors").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("STF-"));
        pages.extend(number.map(|number| (number.to_owned(), path.clone())));
    }
    pages.sort();
    let mut source = String::from(
        "/// Error codes without their prefix, and their pages.\nconst ERROR_PAGES: &[(&str, &str)] = &[\n",
    );
    for (number, path) in pages {
        let line = writeln!(source, "    ({number:?}, include_str!({path:?})),");
        line.map_err(io::Error::other)?;
    }
    source.push_str("];\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("error_pages.rs"), source)
}

fn compress_line_tables() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("PROFILE") == "release" && variable("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
}
