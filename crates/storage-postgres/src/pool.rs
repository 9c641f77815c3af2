//! A pool of sessions with the primary.
//!
//! A session returns to the pool only when its work is done. An interrupted caller
//! drops it, which closes its socket, so that no half-finished session is reused.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_storage::{Error, ErrorKind, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::servers::Servers;
use crate::session::Session;
use crate::statement_error::StatementError;

/// A bounded number of sessions.
pub(crate) struct SessionPool {
    servers: Arc<Servers>,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// A session that is in use.
pub(crate) struct PooledSession<'a> {
    session: Session,
    pool: &'a SessionPool,
    _permit: SemaphorePermit<'a>,
}

impl SessionPool {
    pub(crate) fn new(servers: &Arc<Servers>, size: usize) -> Self {
        Self {
            servers: Arc::clone(servers),
            permits: Semaphore::new(size),
            idle: Mutex::default(),
        }
    }

    /// A session with the newest primary that is known.
    pub(crate) async fn take(&self) -> Result<PooledSession<'_>> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|error| Error::caused(ErrorKind::Closed, error))?;
        let timeline = self.servers.timeline();
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|session| !session.is_closed() && session.timeline == timeline);
            idle.pop()
        };
        let session = match idle {
            Some(session) => session,
            None => self.servers.connect(self.servers.options.patience).await?,
        };
        Ok(PooledSession {
            session,
            pool: self,
            _permit: permit,
        })
    }

    /// Returns a session to the pool.
    pub(crate) fn keep(&self, session: Session) {
        self.idle.lock().push(session);
    }
}

impl PooledSession<'_> {
    /// Gives the session back, unless what happened has broken it.
    pub(crate) fn settle<T>(
        self,
        done: std::result::Result<T, StatementError>,
    ) -> std::result::Result<T, StatementError> {
        if !done.as_ref().is_err_and(StatementError::breaks_connection) {
            self.pool.idle.lock().push(self.session);
        }
        done
    }
}

impl Deref for PooledSession<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for PooledSession<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}
