//! One connection to one server.
//!
//! - A statement that is late is never cancelled: a cancelled wait for replication
//!   is reported as success. The socket is closed instead.
//! - Any warning raises a flag before the answer arrives, because that is how the
//!   server says that it stopped waiting for its standbys.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::task::name_task;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Statement};

use crate::options::Target;
use crate::statement_error::StatementError;

/// A connection, what the server said about itself, and what is prepared on it.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Which server of the address this is.
    pub(crate) host: usize,
    pub(crate) is_writable: bool,
    /// The timeline that the server writes; 0 on a standby or if unknown.
    pub(crate) timeline: u32,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    signals: Arc<SessionSignals>,
    driver: JoinHandle<()>,
}

/// Signals beside answers.
#[derive(Default)]
pub(crate) struct SessionSignals {
    warned: AtomicBool,
    /// A notification came, or the connection has ended.
    pub(crate) woken: Notify,
}

/// Settings of every session. `lock_timeout` bounds waiting for a row, nothing bounds
/// waiting for a standby: see the deadline of the caller.
const SETTINGS: &str = "set synchronous_commit = on; \
    set default_transaction_isolation = 'read committed'; \
    set statement_timeout = 0; set lock_timeout = '3s'; \
    set idle_in_transaction_session_timeout = '10s'; \
    set enable_seqscan = off; set enable_bitmapscan = off; \
    set plan_cache_mode = force_generic_plan; set client_min_messages = warning; ";

const WHO: &str = "select pg_is_in_recovery(), case when pg_is_in_recovery() then '0' \
    else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end";
/// For providers that hide their log.
const WHO_ONLY: &str = "select pg_is_in_recovery(), '0'";

impl Session {
    /// Connects and asks the server what it is.
    pub(crate) async fn open(
        target: &Target,
        host: usize,
        schema: &str,
        has_timeline: bool,
    ) -> Result<Self, StatementError> {
        // The future of a handshake is large: boxing keeps that of each caller small.
        let connected = Box::pin(target.config.connect(target.tls.clone())).await;
        let (client, mut connection) =
            connected.map_err(|error| StatementError::of_connect(error, &target.name))?;
        let signals = Arc::new(SessionSignals::default());
        let heard = Arc::clone(&signals);
        let driver = tokio::spawn(name_task(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                heard.note(&message);
            }
            heard.woken.notify_one();
        }));
        let mut session = Self {
            client,
            host,
            is_writable: false,
            timeline: 0,
            prepared: Mutex::default(),
            signals,
            driver,
        };
        let who = if has_timeline { WHO } else { WHO_ONLY };
        let setup = format!("{SETTINGS}set search_path = {schema}; {who}");
        let answer = session.client.simple_query(&setup).await?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row =
            row.ok_or_else(|| StatementError::unknown("the server says nothing about itself"))?;
        session.is_writable = row.get(0) == Some("f");
        session.timeline = u32::from_str_radix(row.get(1).unwrap_or("0"), 16).unwrap_or(0);
        Ok(session)
    }

    /// Signals beside answers.
    pub(crate) fn signals(&self) -> &Arc<SessionSignals> {
        &self.signals
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Forgets warnings of earlier statements.
    pub(crate) fn forget_warnings(&self) {
        self.signals.warned.store(false, Ordering::SeqCst);
    }

    /// Fails if a warning came since they were forgotten.
    pub(crate) fn expect_no_warning(&self) -> Result<(), StatementError> {
        if self.signals.warned.load(Ordering::SeqCst) {
            Err(StatementError::unknown(
                "the server warned while it committed",
            ))
        } else {
            Ok(())
        }
    }

    /// The statement, prepared once per session.
    pub(crate) async fn statement(&self, sql: &'static str) -> Result<Statement, StatementError> {
        let known = self.prepared.lock().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.lock().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a statement that changes nothing.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StatementError> {
        let statement = self.statement(sql).await?;
        Ok(self.client.query(&statement, values).await?)
    }

    /// Runs one statement as its own transaction; only an answer without any
    /// warning counts.
    pub(crate) async fn write(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StatementError> {
        let statement = self.statement(sql).await?;
        self.forget_warnings();
        let rows = self.client.query(&statement, values).await?;
        self.expect_no_warning()?;
        Ok(rows)
    }
}

impl Drop for Session {
    /// Closes the socket at once, whatever is under way.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl SessionSignals {
    fn note(&self, message: &AsyncMessage) {
        match message {
            AsyncMessage::Notice(notice) => {
                tracing::debug!(event = "postgres.notice", %notice, "the database says");
                let is_harmless = matches!(
                    notice.parsed_severity(),
                    Some(Severity::Debug | Severity::Log | Severity::Info | Severity::Notice)
                );
                if !is_harmless {
                    self.warned.store(true, Ordering::SeqCst);
                }
            }
            AsyncMessage::Notification(_) => self.woken.notify_one(),
            _ => {}
        }
    }
}

/// Waits for an answer, but at most until the deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, StatementError>>,
) -> Result<T, StatementError> {
    match tokio::time::timeout(deadline, work).await {
        Ok(done) => done,
        Err(_) => Err(StatementError::late(deadline)),
    }
}
