//! Settings without which an acknowledgement means little.
//!
//! Checked when the engine starts, for every new connection, and every few seconds.
//! A missing standby is refused at the start only: later it makes commits wait,
//! which is safe.

use steadfast_storage::{Error, Result};
use tokio_postgres::SimpleQueryMessage;

use crate::error::ErrorKind;
use crate::options::Durability;
use crate::session::Session;
use crate::statement_error::StatementError;

const OLDEST: u32 = 140_000;

/// Each setting and the only value that will do.
const REQUIRED: [(&str, &str); 5] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("data_checksums", "on"),
    ("ignore_checksum_failure", "off"),
    ("zero_damaged_pages", "off"),
];

const QUESTION: &str = "select current_setting('server_version_num'), pg_is_in_recovery(), \
    current_setting('fsync'), current_setting('full_page_writes'), \
    current_setting('data_checksums'), current_setting('ignore_checksum_failure', true), \
    current_setting('zero_damaged_pages', true), current_setting('synchronous_standby_names'), \
    pg_has_role('pg_monitor', 'usage'), (select count(*) from pg_stat_replication \
    where state = 'streaming' and sync_state in ('sync', 'quorum'))";

/// The server's answers to [`QUESTION`].
struct Settings(Vec<String>);

/// Refuses a server that would not keep what it acknowledges.
pub(crate) async fn check(session: &Session, durability: Durability) -> Result<()> {
    let settings = ask(session).await?;
    match settings.complaint(durability) {
        Some(what) => Err(Error::new(ErrorKind::UnsafeStorage { what })),
        None => Ok(()),
    }
}

/// As [`check`], and there must be a standby that acknowledges.
pub(crate) async fn check_start(session: &Session, durability: Durability) -> Result<()> {
    let settings = ask(session).await?;
    let complaint = settings.complaint(durability);
    match complaint.or_else(|| settings.lonely(durability)) {
        Some(what) => Err(Error::new(ErrorKind::UnsafeStorage { what })),
        None => Ok(()),
    }
}

/// The identity in the schema, if there is a schema.
pub(crate) async fn cluster(session: &Session) -> Result<Option<String>> {
    let doing = "tell its identity";
    let exists = session
        .query("select to_regclass('sf_meta') is not null", &[])
        .await
        .map_err(|fault| fault.into_error(doing))?;
    if !exists.first().is_some_and(|row| row.get(0)) {
        return Ok(None);
    }
    let found = session
        .query("select v from sf_meta where k = 'cluster'", &[])
        .await
        .map_err(|fault| fault.into_error(doing))?;
    Ok(found.first().map(|row| row.get(0)))
}

async fn ask(session: &Session) -> Result<Settings> {
    let failed = |fault: StatementError| fault.into_error("show its settings");
    let answer = session.client.simple_query(QUESTION).await;
    let answer = answer.map_err(|error| failed(error.into()))?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.ok_or_else(|| failed(StatementError::unknown("no settings")))?;
    let texts = (0..row.len()).map(|index| row.get(index).unwrap_or("").to_string());
    Ok(Settings(texts.collect()))
}

impl Settings {
    fn complaint(&self, durability: Durability) -> Option<String> {
        let version = self.0[0].parse().unwrap_or(0u32);
        if version < OLDEST {
            return Some(format!("server version {version} is older than {OLDEST}"));
        }
        if self.0[1] != "f" {
            return Some("the server is in recovery".to_string());
        }
        if durability == Durability::Provider {
            return None;
        }
        for (index, (name, value)) in REQUIRED.iter().enumerate() {
            let found = &self.0[2 + index];
            // Hidden settings have their defaults, which are right.
            if found != value && !found.is_empty() {
                return Some(format!("{name} is {found}, not {value}"));
            }
        }
        match durability {
            Durability::Quorum => self.names_complaint(),
            _ => None,
        }
    }

    fn names_complaint(&self) -> Option<String> {
        let names = self.0[7].trim();
        if names.is_empty() {
            return Some("synchronous_standby_names is empty".to_string());
        }
        if names.contains('*') {
            let text = "synchronous_standby_names has *, so any receiver counts";
            return Some(format!("{text}; name the standbys"));
        }
        None
    }

    fn lonely(&self, durability: Durability) -> Option<String> {
        if durability != Durability::Quorum {
            return None;
        }
        if self.0[8] != "t" {
            return Some("the role may not see standbys: grant pg_monitor to it".to_string());
        }
        let text = "no standby streams synchronously";
        (self.0[9] == "0").then(|| format!("{text}; start one, or use durability single"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: usize, value: &str) -> Settings {
        let good = [
            "150018",
            "f",
            "on",
            "on",
            "on",
            "off",
            "off",
            "ANY 1 (a,b)",
            "t",
            "2",
        ];
        let mut all = good.map(str::to_string);
        all[change] = value.to_string();
        Settings(all.to_vec())
    }

    #[test]
    fn each_setting_is_demanded() {
        let quorum = Durability::Quorum;
        assert_eq!(settings(0, "150018").complaint(quorum), None);
        for (index, value) in [
            (0, "130010"),
            (1, "t"),
            (2, "off"),
            (3, "off"),
            (4, "off"),
            (5, "on"),
            (6, "on"),
            (7, ""),
            (7, "ANY 1 (*)"),
        ] {
            assert!(
                settings(index, value).complaint(quorum).is_some(),
                "{index}"
            );
        }
    }

    #[test]
    fn standbys_matter_to_a_quorum_only() {
        for (index, value) in [(8, "f"), (9, "0")] {
            let settings = settings(index, value);
            assert!(settings.lonely(Durability::Quorum).is_some());
            assert!(settings.lonely(Durability::Single).is_none());
        }
        assert_eq!(settings(7, "").complaint(Durability::Single), None);
        assert_eq!(settings(2, "off").complaint(Durability::Provider), None);
        assert!(settings(2, "off").complaint(Durability::Single).is_some());
    }
}
