//! Wake-ups and the periodic look at the settings.
//!
//! One session listens. Notifications wake at once; behind them a fingerprint is
//! compared every few seconds, because a notification may be lost with its
//! connection. Commits never notify: they would queue behind one another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::context::PostgresContext;
use crate::error::is_unsafe;
use crate::safety;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

const FINGERPRINT: &str = "select coalesce((select sum(version) from sf_cas), 0)::bigint,
    coalesce((select sum(epoch) from sf_partition), 0)::bigint,
    (select count(owner) from sf_partition)";

/// Without `pg_monitor` no lag is visible, and none is reported.
const LAG: &str = "select coalesce(max(extract(epoch from replay_lag)) * 1000, 0)::bigint
    from pg_stat_replication";

/// How long to wait before an unfit primary is checked again.
const LONGEST: Duration = Duration::from_secs(1);

/// Listens and checks until the task is aborted.
pub(crate) async fn run(shared: Arc<PostgresContext>) {
    let mut known = None;
    loop {
        let patience = shared.options().patience;
        match shared.servers.connect_strictly(patience).await {
            Ok(session) => {
                allow(&shared);
                let ended = watch(&shared, session, &mut known).await;
                tracing::debug!(
                    event = "postgres.listener_reconnects",
                    ?ended,
                    "the listener reconnects"
                );
            }
            Err(error) => {
                if is_unsafe(&error) {
                    refuse(&shared, error);
                } else {
                    tracing::warn!(
                        event = "postgres.no_primary",
                        %error,
                        "no primary to listen to",
                    );
                }
                tokio::time::sleep(shared.options().check_every.min(LONGEST)).await;
            }
        }
    }
}

async fn watch(
    shared: &PostgresContext,
    session: Session,
    known: &mut Option<(i64, i64, i64)>,
) -> Result<(), StatementError> {
    let listen = format!("listen {}", shared.channel());
    let deadline = shared.options().deadline;
    within(deadline, async {
        Ok(session.client.batch_execute(&listen).await?)
    })
    .await?;
    let signals = Arc::clone(session.signals());
    let mut ticks = tokio::time::interval(shared.options().check_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    loop {
        // Checks keep their interval however often it is woken.
        let is_woken = tokio::select! {
            _ = ticks.tick() => false,
            () = signals.woken.notified() => true,
        };
        if session.is_closed() || session.timeline != shared.servers.timeline() {
            return Ok(());
        }
        if is_woken {
            shared.woken();
            continue;
        }
        let check = async {
            let checked = safety::check(&session, shared.options().durability).await;
            checked.map_err(StatementError::Ours)
        };
        match within(deadline, check).await {
            Ok(()) => allow(shared),
            Err(StatementError::Ours(error)) if is_unsafe(&error) => {
                refuse(shared, error);
            }
            Err(fault) => return Err(fault),
        }
        let rows = within(deadline, session.query(LAG, &[])).await?;
        let lag = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        shared
            .replay_lag_ms
            .store(lag.max(0) as u64, Ordering::Relaxed);
        let rows = within(deadline, session.query(FINGERPRINT, &[])).await?;
        let now = rows.first().map(|row| (row.get(0), row.get(1), row.get(2)));
        if now != *known {
            *known = now;
            shared.woken();
        }
    }
}

fn allow(shared: &PostgresContext) {
    if shared.refusal.lock().take().is_some() {
        tracing::info!(
            event = "postgres.safe_again",
            "the database is safe again, writes go on"
        );
    }
}

fn refuse(shared: &PostgresContext, error: steadfast_storage::Error) {
    tracing::error!(
        event = "postgres.unsafe",
        %error,
        "nothing is written until this is corrected",
    );
    *shared.refusal.lock() = Some(error);
}
