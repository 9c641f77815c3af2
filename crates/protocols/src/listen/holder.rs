//! Who listens on a port.
//!
//! The kernel lists listening sockets by inode, and every process's open files by
//! inode too. Files of other users' processes are hidden from all but root.

use std::fs;
use std::path::Path;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The name of its program.
    pub name: String,
}

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process that listens on `port`, if it can be found.
pub fn holder_of(port: u16) -> Option<Holder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok());
    let inodes: Vec<_> = texts.flat_map(|text| listening(&text, port)).collect();
    let processes = fs::read_dir("/proc").ok()?;
    let mut pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find_map(|pid| holds(pid, &inodes))
}

/// The inodes of the sockets in a table that listen on `port`.
fn listening(table: &str, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let mut columns = line.split_whitespace();
        let (_, local_port) = columns.nth(1)?.rsplit_once(':')?;
        let is_ours = u16::from_str_radix(local_port, 16).ok()? == port;
        let is_listening = columns.nth(1)? == LISTENING;
        let inode = columns.nth(5)?;
        (is_ours && is_listening).then(|| format!("socket:[{inode}]"))
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn holds(pid: u32, sockets: &[String]) -> Option<Holder> {
    let process = Path::new("/proc").join(pid.to_string());
    let mut files = fs::read_dir(process.join("fd")).ok()?;
    let is_one = |target: &Path| sockets.iter().any(|socket| Path::new(socket) == target);
    let found = files.any(|file| {
        let target = file.and_then(|file| fs::read_link(file.path()));
        target.is_ok_and(|target| is_one(&target))
    });
    let name = fs::read_to_string(process.join("comm")).ok()?;
    found.then(|| Holder {
        pid,
        name: name.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_found_and_a_free_one_has_none() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(holder_of(port).unwrap().pid, std::process::id());
        drop(socket);
        assert_eq!(holder_of(port), None);
    }
}
