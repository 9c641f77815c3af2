//! Registers jobs, many at a time.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use steadfast_jobs::recurrence::{Frequency, JobTiming, Recurrence};
use steadfast_jobs::{
    CollectionDraft, CollectionId, JobAction, JobClient, JobDraft, JobPolicy, JobRetry,
    Precondition, Target,
};

use super::session::Session;

/// Collections that jobs are spread over.
const COLLECTIONS: u64 = 512;
/// Callers that register concurrently.
const CALLERS: u64 = 256;

/// When a job runs: its start, and its interval in seconds, if it recurs.
pub(super) type JobTimes = (i64, Option<u32>);

/// Creates the collections.
pub(super) fn collections(session: &Session) -> Result<()> {
    session.tasks.block_on(async {
        for number in 0..COLLECTIONS {
            let draft = CollectionDraft {
                id: collection(number)?,
                document: "{}".into(),
                most_jobs: None,
                is_enabled: None,
            };
            session
                .jobs
                .put_collection(draft, Precondition::Nothing)
                .await?;
        }
        Ok(())
    })
}

/// Creates `count` jobs that call `url`.
pub(super) fn register(
    session: &Session,
    prefix: &'static str,
    count: u64,
    url: &str,
    when: impl Fn(u64) -> JobTimes + Clone + Send + 'static,
) -> Result<()> {
    let callers: Vec<_> = (0..CALLERS.min(count))
        .map(|caller| {
            let (jobs, url, when) = (session.jobs.clone(), url.to_string(), when.clone());
            session.tasks.spawn(async move {
                for number in (caller..count).step_by(CALLERS as usize) {
                    put(&jobs, prefix, number, &url, when(number)).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    session.tasks.block_on(async {
        for caller in callers {
            caller.await??;
        }
        Ok(())
    })
}

fn collection(number: u64) -> Result<CollectionId> {
    let name = format!("c{}", number % COLLECTIONS);
    CollectionId::new("bench", "bench", &name).context("a good name")
}

async fn put(jobs: &JobClient, prefix: &str, number: u64, url: &str, when: JobTimes) -> Result<()> {
    let request = json!({"uri": url, "method": "GET"});
    let action = json!({"type": "Http", "request": request}).to_string();
    let (start, every_s) = when;
    let repeat = |interval| Recurrence {
        frequency: Frequency::Second,
        interval,
        count: None,
        end: None,
        schedule: None,
    };
    let id = collection(number)?.job(&format!("{prefix}{number}"));
    let draft = JobDraft {
        id: id.context("a good name")?,
        document: json!({"action": {"type": "Http", "request": {"uri": url}}}).to_string(),
        timing: JobTiming {
            start: Some(start),
            recurrence: every_s.map(repeat),
            ..JobTiming::default()
        },
        main: JobAction {
            target: Target::Outside(action),
            retry: JobRetry::default(),
        },
        error: None,
        dead_letter: None,
        policy: JobPolicy::default(),
        state: None,
    };
    // The log may be throttled for a moment.
    for _ in 0..1000 {
        match jobs.put(draft.clone(), Precondition::Nothing).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code().0 == "STF-2008" => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("the log stays full")
}
