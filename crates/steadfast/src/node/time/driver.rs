//! Moves the time of a node, moment by moment.
//!
//! The time is never moved over a timer that is due: it stops there until everything that
//! the timer caused has ended, and timers that are set on the way count. So what happens
//! does not depend on how far one call moves the time.
//!
//! An orchestration's own clock goes on by a millisecond with each further turn at one
//! moment. When everything has ended, the time catches up with the latest of them; a move
//! by a duration goes that much further, so that a wait of a day that begins after such
//! turns ends when the time is moved by a day.
//!
//! A node has ended its work when two passes over its partitions find each of them idle
//! with the same number of commands, and no work item or attempt is open before, between
//! and after them. Work items and attempts are counted until their results are in the
//! mailbox of their partition, so nothing is lost from sight between the two.

use std::time::Duration;

use steadfast_core::backoff::Backoff;
use steadfast_core::clock::{Clock, SteppedClock, Timestamp};
use steadfast_core::limits;
use steadfast_partition::{IdleReport, Mailbox};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout_at};

use super::error::{Error, ErrorKind, Result};
use super::report::{AdvanceOptions, OpenWork, TimeReport};
use super::virtual_time::VirtualTime;
use crate::node::inner::Inner;

/// The pauses between two looks at work that is done outside the partitions. It has no
/// signal for its end, so that nodes on the system's clock need not give one.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Where the time is moved.
#[derive(Clone, Copy)]
enum MoveTarget {
    By(Duration),
    To(Timestamp),
}

impl MoveTarget {
    /// The destination of a move that begins now.
    fn destination(self, now: Timestamp) -> Timestamp {
        match self {
            Self::By(by) => now.plus(by),
            Self::To(to) => to,
        }
    }
}

/// One move of the time.
struct TimeMove<'a> {
    inner: &'a Inner,
    options: AdvanceOptions,
    end: Instant,
    report: TimeReport,
}

impl Inner {
    /// Waits until everything that is due has ended.
    pub(crate) async fn settle(&self, options: AdvanceOptions) -> Result<TimeReport> {
        let time = self.virtual_time()?;
        let mut settling = TimeMove::new(self, options);
        let _moving = settling.begin(time).await?;
        settling.settle(&time.clock).await?;
        Ok(settling.end(&time.clock))
    }

    /// Moves the time by a duration.
    pub(crate) async fn advance_by(
        &self,
        by: Duration,
        options: AdvanceOptions,
    ) -> Result<TimeReport> {
        self.move_time(MoveTarget::By(by), options).await
    }

    /// Moves the time to a moment.
    pub(crate) async fn advance_to(
        &self,
        to: Timestamp,
        options: AdvanceOptions,
    ) -> Result<TimeReport> {
        self.move_time(MoveTarget::To(to), options).await
    }

    async fn move_time(&self, target: MoveTarget, options: AdvanceOptions) -> Result<TimeReport> {
        let time = self.virtual_time()?;
        let clock = &time.clock;
        let mut moving = TimeMove::new(self, options);
        let _moving = moving.begin(time).await?;
        let (now, to) = (clock.now(), target.destination(clock.now()));
        if to < now || to > now.plus(limits::TIME_MOVE) {
            return Err(Error::new(ErrorKind::OutOfReach { now, to }));
        }
        let (mut next, _) = moving.settle(clock).await?;
        // What fired before the move was due before it.
        moving.report = TimeReport::default();
        let mut to = target.destination(clock.now()).max(clock.now());
        while let Some(due) = next.filter(|due| *due <= to) {
            if moving.report.moments >= limits::TIME_MOMENTS {
                let (now, moments) = (clock.now(), moving.report.moments);
                return Err(Error::new(ErrorKind::TooManyMoments { now, moments }));
            }
            clock.move_to(due);
            moving.report.moments += 1;
            let own;
            (next, own) = moving.settle(clock).await?;
            to = match target {
                MoveTarget::By(_) => to.plus(own),
                // The time may have gone beyond its destination by itself.
                MoveTarget::To(to) => to.max(clock.now()),
            };
        }
        clock.move_to(to);
        Ok(moving.end(clock))
    }

    fn virtual_time(&self) -> Result<&VirtualTime> {
        let time = self.virtual_time.as_ref();
        time.ok_or_else(|| Error::new(ErrorKind::SystemTime))
    }
}

impl<'a> TimeMove<'a> {
    fn new(inner: &'a Inner, options: AdvanceOptions) -> Self {
        Self {
            inner,
            options,
            end: Instant::now() + options.limit.min(limits::TIME_MOVE_LIMIT),
            report: TimeReport::default(),
        }
    }

    /// Waits until no other move is under way.
    async fn begin<'t>(&self, time: &'t VirtualTime) -> Result<MutexGuard<'t, ()>> {
        let moving = timeout_at(self.end, time.moving.lock()).await;
        moving.map_err(|_| self.unsettled(&time.clock))
    }

    fn unsettled(&self, clock: &SteppedClock) -> Error {
        Error::new(ErrorKind::Unsettled {
            now: clock.now(),
            open: self.open_work(),
            limit: self.options.limit,
        })
    }

    fn end(mut self, clock: &SteppedClock) -> TimeReport {
        self.report.now = clock.now();
        self.report
    }

    /// Waits until everything that is due has ended; returns when the next timer is due, and
    /// how much time went on by itself.
    async fn settle(&mut self, clock: &SteppedClock) -> Result<(Option<Timestamp>, Duration)> {
        let mut pause = Backoff::new(FIRST_LOOK, LONGEST_LOOK);
        let mut former = None;
        let mut fired = TimeReport::default();
        loop {
            // A node that has ended has no partitions, and gets none.
            if Instant::now() >= self.end || self.inner.stop.is_cancelled() {
                return Err(self.unsettled(clock));
            }
            let reports = self.pass().await;
            for report in &reports {
                fired.add(&report.fired, report.fired_count);
            }
            if reports.len() < usize::from(self.inner.partitions()) {
                former = None;
                tokio::time::sleep(pause.pause()).await;
                continue;
            }
            let commands: Vec<_> = reports.iter().map(|report| report.commands).collect();
            if self.open_work().is_empty() && former.as_ref() == Some(&commands) {
                // Those of one moment are in no order.
                fired.fired.sort();
                self.report.fired_count += fired.fired_count;
                self.report.fired.append(&mut fired.fired);
                self.report.fired.truncate(limits::FIRED_TIMERS);
                let next = reports.iter().filter_map(|report| report.next_due).min();
                return Ok((next, clock.catch_up()));
            }
            former = Some(commands);
        }
    }

    /// The reports of the partitions that become idle in time; none while work is open. A
    /// partition that has been lost is missing until it is open again.
    async fn pass(&self) -> Vec<IdleReport> {
        let mut reports = Vec::new();
        if !self.open_work().is_empty() {
            return reports;
        }
        let mailboxes = self.inner.runtime.router().mailboxes();
        let idle: Vec<_> = mailboxes.iter().map(Mailbox::idle).collect();
        for report in idle {
            let report = timeout_at(self.end, report).await;
            reports.extend(report.ok().flatten());
        }
        reports
    }

    /// Work outside the partitions that has not ended.
    fn open_work(&self) -> OpenWork {
        let services = &self.inner.services;
        let counts = services.task_hubs.counts();
        let mut open = OpenWork {
            queued: counts.queued,
            running: counts.in_progress,
            attempts: services.jobs.open_attempts() as u64,
        };
        if self.options.leaves_activities {
            open.queued.activities = 0;
            open.running.activities = 0;
            open.attempts = 0;
        }
        open
    }
}
