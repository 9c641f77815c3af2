//! One PostgreSQL server.
//!
//! Kill and freeze affect all its processes, like a dead or stalled machine. It is
//! killed on drop, and its folder removed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use super::folder;
use super::programs;
use super::starter;
use crate::ports::reserve_port;
use crate::process::Process;

/// The attempts within which a started server must answer.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// The settings of every server.
const SETTINGS: &str = "listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 100
shared_buffers = 32MB
wal_keep_size = 512MB
max_wal_size = 1GB
max_wal_senders = 10
wal_retrieve_retry_interval = 200ms
wal_receiver_status_interval = 1s
wal_sender_timeout = 10s
jit = off
autovacuum_naptime = 600s
";

/// A server on a port of this machine.
pub struct PostgresServer {
    name: String,
    port: u16,
    data: PathBuf,
    process: Option<Process>,
}

impl PostgresServer {
    /// Makes a server with an empty database; it does not run yet.
    pub fn create(name: &str, settings: &str) -> anyhow::Result<PostgresServer> {
        let data = folder::data(name)?;
        let port = reserve_port()?;
        let file = data.join("postgresql.conf");
        let all = format!("{SETTINGS}port = {port}\ncluster_name = '{name}'\n{settings}\n");
        std::fs::write(&file, all).with_context(|| format!("write {}", file.display()))?;
        programs::give(&file)?;
        Ok(PostgresServer {
            name: name.to_owned(),
            port,
            data,
            process: None,
        })
    }

    /// The server without standbys that all tests of this process share.
    pub fn shared() -> MutexGuard<'static, PostgresServer> {
        static SHARED: OnceLock<Mutex<PostgresServer>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let mut server = PostgresServer::create("alone", "").expect("a server can be made");
            server.start().expect("the server starts");
            Mutex::new(server)
        });
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards its data and makes it a standby of another, by a base backup. It keeps its
    /// name and port, and runs when this returns.
    pub fn rebuild(&mut self, primary: &PostgresServer) -> anyhow::Result<()> {
        self.kill()?;
        let file = self.data.join("postgresql.conf");
        let own = std::fs::read_to_string(&file)?;
        std::fs::remove_dir_all(&self.data)?;
        let mut backup = programs::command("pg_basebackup")?;
        backup.args(["-c", "fast", "-X", "stream", "--no-sync", "-h", "127.0.0.1"]);
        backup.args(["-U", "postgres", "-p", &primary.port.to_string(), "-D"]);
        programs::output(backup.arg(&self.data))?;
        std::fs::write(&file, own)?;
        self.follow(primary)?;
        self.start()
    }

    /// Makes it a standby of another at its next start.
    pub fn follow(&self, primary: &PostgresServer) -> anyhow::Result<()> {
        let signal = self.data.join("standby.signal");
        std::fs::write(&signal, "")?;
        programs::give(&signal)?;
        let file = self.data.join("postgresql.auto.conf");
        std::fs::write(
            &file,
            format!("primary_conninfo = '{}'\n", primary.conninfo(self)),
        )?;
        programs::give(&file)
    }

    /// The connection string with which a standby connects to this server.
    pub(super) fn conninfo(&self, standby: &PostgresServer) -> String {
        let (port, name) = (self.port, &standby.name);
        format!("host=127.0.0.1 port={port} user=postgres application_name={name}")
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.data.with_extension("log"))?;
        let mut command = programs::command("postgres")?;
        command.arg("-D").arg(&self.data).stderr(Stdio::from(log));
        self.process = Some(starter::spawn(command)?);
        for _ in 0..TRIES {
            if self.sql("select 1").is_ok() {
                return Ok(());
            }
            if let Some(process) = &mut self.process
                && process.wait(PAUSE).is_ok()
            {
                break;
            }
        }
        let log = std::fs::read_to_string(self.data.with_extension("log"));
        bail!(
            "server {} does not start: {}",
            self.name,
            log.unwrap_or_default()
        )
    }

    /// The name under which it counts as a standby.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data folder.
    pub fn data(&self) -> &PathBuf {
        &self.data
    }

    /// Whether it was started and not killed or stopped since.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The address for a user, `name` or `name:password`.
    pub fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs SQL as the superuser and returns what `psql` prints.
    pub fn sql(&self, statement: &str) -> anyhow::Result<String> {
        self.sql_in("postgres", statement)
    }

    /// The same in another database than the usual one.
    pub fn sql_in(&self, database: &str, statement: &str) -> anyhow::Result<String> {
        programs::output(self.psql(database)?.args(["-c", statement]))
    }

    /// Runs a file of SQL, such as one that `pg_dump` has written, in a database.
    pub fn load(&self, database: &str, file: &Path) -> anyhow::Result<()> {
        programs::output(self.psql(database)?.arg("-f").arg(file)).map(drop)
    }

    fn psql(&self, database: &str) -> anyhow::Result<Command> {
        let mut psql = Command::new(programs::folder()?.join("psql"));
        psql.args(["-XAtq", "-h", "127.0.0.1", "-U", "postgres", "-d", database]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-p", &self.port.to_string()]);
        psql.env("PGCONNECT_TIMEOUT", "5");
        Ok(psql)
    }

    /// Waits until a statement returns `expected`.
    pub fn wait_for(&self, statement: &str, expected: &str) -> anyhow::Result<()> {
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.sql(statement) {
                Ok(answer) if answer == expected => return Ok(()),
                Ok(answer) => last = answer,
                Err(error) => last = error.to_string(),
            }
            thread::sleep(PAUSE);
        }
        bail!("{}: {statement} answers {last}, not {expected}", self.name)
    }

    /// Changes a setting while it runs.
    pub fn set(&self, name: &str, value: &str) -> anyhow::Result<()> {
        self.sql(&format!("alter system set {name} = '{value}'"))?;
        self.sql("select pg_reload_conf()").map(drop)
    }

    /// Kills all its processes at once.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            let children = children(process.id())?;
            process.kill()?;
            signal(&children, Signal::KILL);
        }
        Ok(())
    }

    /// Stops it in order: everything is written.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            let id = Pid::from_raw(process.id() as i32).context("a process has an id")?;
            rustix::process::kill_process(id, Signal::INT)?;
            process.wait(Duration::from_secs(30))?;
        }
        Ok(())
    }

    /// Freezes all its processes.
    pub fn freeze(&self) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the server does not run")?;
        process.freeze()?;
        signal(&children(process.id())?, Signal::STOP);
        Ok(())
    }

    /// Resumes all its processes.
    pub fn thaw(&self) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the server does not run")?;
        signal(&children(process.id())?, Signal::CONT);
        process.thaw()
    }

    /// The file of a table or index, for a test that damages it.
    pub fn file_of(&self, relation: &str) -> anyhow::Result<PathBuf> {
        let path = self.sql(&format!("select pg_relation_filepath('{relation}')"))?;
        Ok(self.data.join(path))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let _ = self.kill();
        // A remaining folder is removed by a later test process.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

fn signal(processes: &[Pid], signal: Signal) {
    for id in processes {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(*id, signal);
    }
}

/// The processes that a server has started; none of them starts others.
fn children(parent: u32) -> anyhow::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name in parentheses may hold anything; the parent is two fields behind it.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        if rest.split_whitespace().nth(1) == Some(&parent.to_string()) {
            found.extend(Pid::from_raw(id));
        }
    }
    Ok(found)
}
