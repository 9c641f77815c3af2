//! Real clients, as the test command installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of an installed folder or file.
fn installed(path: impl AsRef<Path>) -> PathBuf {
    match std::env::var_os("STEADFAST_TOOLS") {
        Some(tools) => PathBuf::from(tools).join(path),
        None => panic!("run `cargo xtask test`, which installs clients and sets STEADFAST_TOOLS"),
    }
}

/// Chromium.
pub fn browser() -> PathBuf {
    installed("browser/chromium")
}

/// The Python that has the packages of an environment.
pub fn interpreter(environment: &str) -> Command {
    Command::new(installed(format!("python/{environment}/bin/python")))
}

/// A program of `interop` in Python, with the packages of an environment.
pub fn python(environment: &str, program: &str) -> Command {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
    let mut command = interpreter(environment);
    // No compiled files among the sources.
    command.arg("-B").arg(sources.join(program));
    command
}

/// A program in JavaScript, among the packages that it uses.
pub fn javascript(program: &str) -> Command {
    let mut command = Command::new(installed("node/bin/node"));
    command.arg(installed("packages").join(program));
    command
}

/// A program in Java, with the packages of its module. The JVM optimises little, because
/// none runs for long.
pub fn java(module: &str, class: &str) -> Command {
    let built = installed("java").join(module).join("target");
    let (classes, packages) = (built.join("classes"), built.join("lib"));
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
    command.arg("-classpath");
    command.arg(format!("{}:{}/*", classes.display(), packages.display()));
    command.arg(class);
    command
}

/// A program in Rust.
pub fn rust(program: &str) -> Command {
    Command::new(installed("rust/debug").join(program))
}

/// A sub-command of the program in Go.
pub fn go(area: &str) -> Command {
    let mut command = Command::new(installed("go/clients"));
    command.arg(area);
    command
}

/// A program in .NET.
pub fn dotnet(program: &str) -> Command {
    let mut command = Command::new("dotnet");
    let built = installed("dotnet").join(program);
    command.arg(built.join(format!("{program}.dll")));
    command
}

/// Prints the output of a program with scenarios, with its name in front: test file and
/// client. The test command reads these lines.
#[expect(clippy::print_stdout, reason = "a test's own output")]
pub fn show(name: &str, output: &[u8]) {
    for line in String::from_utf8_lossy(output).lines() {
        println!("scenario {name} {line}");
    }
}
