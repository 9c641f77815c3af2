//! What systemd is told.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::running::{PATIENCE, Start};

#[test]
fn systemd_learns_of_ready_reloading_and_stopping() {
    let mut start = Start::new("dev");
    let path = start.folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    start.command.env("NOTIFY_SOCKET", &path);
    let next = || {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let mut server = start.ready();
    assert_eq!(next().trim(), "READY=1");
    server.signal(Signal::HUP);
    let reloading = next();
    let mut lines = reloading.lines();
    assert_eq!(lines.next(), Some("RELOADING=1"));
    let time = lines
        .next()
        .unwrap()
        .strip_prefix("MONOTONIC_USEC=")
        .unwrap();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    let told: f64 = time.parse().unwrap();
    assert!(
        (uptime - told / 1e6).abs() < 60.0,
        "{told} is not the time of {uptime}"
    );
    assert_eq!(next().trim(), "READY=1");
    server.process.terminate().unwrap();
    assert_eq!(next().trim(), "STOPPING=1");
    assert_eq!(server.ended().0, 0);
}

/// The unit file, with this binary in the place of the installed one.
#[test]
fn systemd_takes_the_unit_file() {
    let folder = tempfile::tempdir().unwrap();
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/steadfast.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let verify = |text: &str| {
        let path = folder.path().join("steadfast.service");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new("systemd-analyze");
        let output = command.arg("verify").arg(&path).output();
        let output = output.expect("`cargo xtask test --only server` installs systemd");
        (
            output.status.success(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let text = unit.replace("/usr/bin/steadfast", env!("CARGO_BIN_EXE_steadfast"));
    let (is_good, said) = verify(&text);
    assert!(is_good && !said.contains("steadfast.service"), "{said}");
    let (_, said) = verify(&text.replace("KillSignal=SIGTERM", "KillSignal=SIGNONE"));
    assert!(
        said.contains("steadfast.service"),
        "it finds nothing: {said}"
    );
}
