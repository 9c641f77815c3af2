//! The process that listens on a port.
//!
//! The kernel lists listening sockets by inode and user, and every process's open
//! files by inode. Files of other users' processes are hidden from all but root, and a
//! process that ends has no files any more while its sockets are still being closed.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortHolder {
    Process {
        pid: u32,
        /// The name of its program.
        name: String,
    },
    /// A process of a user whose processes cannot be seen.
    OtherUser,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, name } => write!(f, "process {pid} ({name})"),
            Self::OtherUser => f.write_str("a process of another user"),
        }
    }
}

/// A listening socket.
#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket {
    /// Its name in the links of open files.
    link: String,
    user: u32,
}

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// The process that listens on `port`. `None` if none is visible: the port is free, or
/// still held by a process that is ending.
pub fn holder_of(port: u16) -> Option<PortHolder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok());
    let sockets: Vec<_> = texts.flat_map(|text| listening(&text, port)).collect();
    let processes = fs::read_dir("/proc").ok()?;
    let mut pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let own = fs::metadata("/proc/self").ok()?.uid();
    pids.find_map(|pid| holds(pid, &sockets))
        .or_else(|| hidden(&sockets, own))
}

/// The holder of sockets that no visible process has open. Root sees every process.
fn hidden(sockets: &[ListeningSocket], own: u32) -> Option<PortHolder> {
    let is_hidden = own != 0 && sockets.iter().any(|socket| socket.user != own);
    is_hidden.then_some(PortHolder::OtherUser)
}

/// The sockets in a table that listen on `port`.
fn listening(table: &str, port: u16) -> Vec<ListeningSocket> {
    let socket = |line: &str| {
        let mut columns = line.split_whitespace();
        let (_, local_port) = columns.nth(1)?.rsplit_once(':')?;
        let is_ours = u16::from_str_radix(local_port, 16).ok()? == port;
        let is_listening = columns.nth(1)? == LISTENING;
        let user = columns.nth(3)?.parse().ok()?;
        let inode = columns.nth(1)?;
        (is_ours && is_listening).then(|| ListeningSocket {
            link: format!("socket:[{inode}]"),
            user,
        })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

fn holds(pid: u32, sockets: &[ListeningSocket]) -> Option<PortHolder> {
    let process = Path::new("/proc").join(pid.to_string());
    let mut files = fs::read_dir(process.join("fd")).ok()?;
    let links = sockets.iter().map(|socket| Path::new(&socket.link));
    let is_one = |target: &Path| links.clone().any(|link| link == target);
    let found = files.any(|file| {
        let target = file.and_then(|file| fs::read_link(file.path()));
        target.is_ok_and(|target| is_one(&target))
    });
    let name = fs::read_to_string(process.join("comm")).ok()?;
    found.then(|| PortHolder::Process {
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
        let Some(PortHolder::Process { pid, .. }) = holder_of(port) else {
            panic!("a process");
        };
        assert_eq!(pid, std::process::id());
        drop(socket);
        assert_eq!(holder_of(port), None);
    }

    /// As the kernel lists a socket of user 1000 that listens on port 8080.
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
         retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A \
         00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0\n";

    #[test]
    fn another_user_is_blamed_only_for_a_socket_of_its_own() {
        let sockets = listening(TABLE, 8080);
        let link = "socket:[4711]".to_owned();
        assert_eq!(sockets, [ListeningSocket { link, user: 1000 }]);
        assert_eq!(hidden(&sockets, 1001), Some(PortHolder::OtherUser));
        // A process of the same user that ends, and everything that root cannot see.
        assert_eq!(hidden(&sockets, 1000), None);
        assert_eq!(hidden(&sockets, 0), None);
        assert_eq!(listening(TABLE, 8081), []);
    }
}
