//! The operations of the scheduler interface.

use serde_json::{Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::recurrence::{JobTiming, OccurrencePlan};
use steadfast_jobs::{
    CollectionId, ErrorKind, Job, JobClient, JobCollection, JobId, PageRequest, Precondition,
    SweepKind,
};

use super::authorization::{CallerGrants, may_see};
use super::context::Context;
use super::error::SchedulerError;
use super::home::JobHome;
use super::job::{self, STATES, VERDICTS};
use super::query::Parameters;
use super::response::SchedulerResponse;
use super::value::JsonObject;
use super::{body, collection, extension, path, recurrence};

/// Maximum attempts at a change under concurrent modification.
const TRIES: usize = 8;

/// A request without its path.
pub(crate) struct SchedulerRequest<'a> {
    pub(crate) context: &'a Context,
    /// The jobs, or their replica.
    pub(crate) jobs: &'a JobClient,
    /// In a region pair, their home.
    pub(crate) home: Option<&'a dyn JobHome>,
    /// How a missing collection is created, if it may be.
    pub(crate) makes: Option<Precondition>,
    pub(crate) query: &'a Parameters,
    pub(crate) body: &'a [u8],
    /// The grants of the caller.
    pub(crate) grants: &'a CallerGrants,
    /// Scheme and host, for links.
    pub(crate) base: String,
    /// The ETag of `If-Match`.
    pub(crate) if_match: Option<String>,
    /// The client's id of this request.
    pub(crate) request: Option<String>,
}

/// Whether a body replaces or patches the stored document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateMode {
    Put,
    Patch,
}

impl SchedulerRequest<'_> {
    pub(crate) fn json(&self) -> Result<Value, SchedulerError> {
        body::read(self.body)
    }

    /// Checks `If-Match` against the current version.
    fn check_seen(&self, version: Option<u64>) -> Result<(), SchedulerError> {
        let Some(wanted) = self.if_match.as_deref().filter(|wanted| *wanted != "*") else {
            return Ok(());
        };
        let own = version.map(|version| format!("\"{version}\""));
        if own.as_deref() == Some(wanted) {
            Ok(())
        } else {
            Err(SchedulerError::conflict(
                "ETag mismatch: the resource was modified concurrently; read it again and retry",
            ))
        }
    }

    pub(crate) async fn collections(
        &self,
        subscription: &str,
        group: Option<&str>,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let found = self.jobs.collections(subscription, group).await?;
        let shown: Vec<_> = found
            .iter()
            .filter(|found| may_see(self.grants, &found.id.name))
            .map(|found| collection::show(self.home, &found.id, found))
            .collect();
        Ok(SchedulerResponse::Shown(
            json!({"value": shown, "nextLink": null}),
        ))
    }

    pub(crate) async fn get_collection(
        &self,
        id: &CollectionId,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let found = self.jobs.collection(id).await?;
        Ok(kept_collection(self.home, id, &found, false))
    }

    pub(crate) async fn put_collection(
        &self,
        id: &CollectionId,
        manner: UpdateMode,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let body = self.json()?;
        let is_put = manner == UpdateMode::Put && self.makes.is_some();
        for _ in 0..TRIES {
            let found = match self.jobs.collection(id).await {
                Ok(found) => Some(found),
                Err(error) if error.kind() == ErrorKind::NoCollection && is_put => None,
                Err(error) => return Err(error.into()),
            };
            self.check_seen(found.as_ref().map(|found| found.version))?;
            let wanted = match (manner, &found) {
                (UpdateMode::Patch, Some(found)) => {
                    collection::patched(&body, &collection::stored(found))
                }
                _ => body.clone(),
            };
            let draft = collection::draft(self.context, self.home, id, &wanted)?;
            let expect = match (&found, self.makes) {
                (None, Some(makes)) => makes,
                _ => expect(found.as_ref().map(|found| found.version)),
            };
            match self.jobs.put_collection(draft, expect).await {
                Ok(kept) => return Ok(kept_collection(self.home, id, &kept, found.is_none())),
                Err(error) if error.kind() == ErrorKind::Changed => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(SchedulerError::conflict(
            "the job collection is being modified concurrently; retry",
        ))
    }

    pub(crate) async fn sweep(
        &self,
        id: &CollectionId,
        kind: SweepKind,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let jobs = self.jobs;
        let has_many = jobs.collection(id).await?.jobs > self.context.settings.synchronous_jobs;
        let begun = jobs.sweep(id, kind).await?;
        if !has_many && jobs.swept(id, begun).await? {
            return Ok(SchedulerResponse::Done);
        }
        let (path, version) = (path::collection_url(id), self.query.version());
        let base = &self.base;
        let place = format!("{base}{path}/operations/{begun}?api-version={version}");
        Ok(SchedulerResponse::Running(place))
    }

    pub(crate) async fn operation(
        &self,
        id: &CollectionId,
        number: u64,
    ) -> Result<SchedulerResponse, SchedulerError> {
        if self.jobs.is_sweeping(id, number).await? {
            let (path, version) = (path::collection_url(id), self.query.version());
            let base = &self.base;
            let place = format!("{base}{path}/operations/{number}?api-version={version}");
            Ok(SchedulerResponse::Running(place))
        } else {
            Ok(SchedulerResponse::Done)
        }
    }

    pub(crate) async fn get_job(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        self.jobs.collection(&id.collection).await?;
        let found = self.jobs.job(id).await?;
        Ok(kept_job(id, &found, false))
    }

    pub(crate) async fn put_job(
        &self,
        id: &JobId,
        manner: UpdateMode,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let body = self.json()?;
        let (job, is_new) = self.keep(id, &body, manner).await?;
        Ok(kept_job(id, &job, is_new))
    }

    /// Creates or changes a job; returns whether it is new.
    pub(crate) async fn keep(
        &self,
        id: &JobId,
        body: &Value,
        manner: UpdateMode,
    ) -> Result<(Job, bool), SchedulerError> {
        let jobs = self.jobs;
        for _ in 0..TRIES {
            let home = jobs.collection(&id.collection).await?;
            let found = match jobs.job(id).await {
                Ok(found) => Some(found),
                Err(error) if error.kind() == ErrorKind::NoJob && manner == UpdateMode::Put => None,
                Err(error) => return Err(error.into()),
            };
            if found
                .as_ref()
                .is_some_and(|found| found.status.state.is_final())
            {
                let message = "the job has come to its end; delete it and make a new one";
                return Err(SchedulerError::conflict(message));
            }
            self.check_seen(found.as_ref().map(|found| found.definition.version))?;
            let known = found.as_ref().map(job::stored);
            let wanted = match (manner, &known) {
                (UpdateMode::Patch, Some(known)) => job::patched(body, known)?,
                _ => job::replaced(body, known.as_ref())?,
            };
            let draft = job::draft(
                self.context,
                self.grants,
                id,
                &wanted,
                known.as_ref(),
                &home,
            )
            .await?;
            let expect = expect(found.as_ref().map(|found| found.definition.version));
            match jobs.put(draft, expect).await {
                Ok(kept) => return Ok((kept, found.is_none())),
                Err(error) if error.kind() == ErrorKind::Changed => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(SchedulerError::conflict(
            "the job is being modified concurrently; retry",
        ))
    }

    pub(crate) async fn delete_job(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        self.jobs.delete(id).await?;
        Ok(SchedulerResponse::Done)
    }

    pub(crate) async fn run(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        self.jobs.run(id, self.request.clone()).await?;
        Ok(SchedulerResponse::Done)
    }

    pub(crate) async fn backfill(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        let body = self.json()?;
        let object = JsonObject::new(&body, "")?;
        let required = |name: &str| {
            object
                .time(name)?
                .ok_or_else(|| object.wrong(name, "it is required"))
        };
        let (from, to) = (required("from")?, required("to")?);
        self.jobs.backfill(id, from.0, to.0).await?;
        Ok(SchedulerResponse::Done)
    }

    pub(crate) async fn pause(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        let body = if self.body.is_empty() {
            json!({})
        } else {
            self.json()?
        };
        let object = JsonObject::new(&body, "")?;
        let reason = object.text("reason")?.unwrap_or_default();
        self.jobs.pause(id, reason.into()).await?;
        Ok(SchedulerResponse::Done)
    }

    pub(crate) async fn resume(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        self.jobs.resume(id).await?;
        Ok(SchedulerResponse::Done)
    }

    pub(crate) async fn list(
        &self,
        id: &CollectionId,
    ) -> Result<SchedulerResponse, SchedulerError> {
        let wanted = PageRequest {
            filter: self.query.filter(&["state"], &STATES)?,
            skip: self.query.skip()?,
            limit: self.query.top()?.unwrap_or(self.context.settings.page),
            behind: self.query.get("cursor").map(Into::into),
        };
        let page = self.jobs.list(id, &wanted).await?;
        let show = |found: &Job| {
            let own = id.job(&found.definition.id.name);
            job::show(own.as_ref().unwrap_or(&found.definition.id), found)
        };
        let items: Vec<_> = page.items.iter().map(show).collect();
        let path = format!("{}/jobs", path::collection_url(id));
        Ok(self.page(&items, &path, page.next))
    }

    pub(crate) async fn history(&self, id: &JobId) -> Result<SchedulerResponse, SchedulerError> {
        let wanted = PageRequest {
            filter: self.query.filter(&["status", "state"], &VERDICTS)?,
            skip: self.query.skip()?,
            limit: self.query.top()?.unwrap_or(self.context.settings.page),
            behind: self.query.get("cursor").map(Into::into),
        };
        let page = self.jobs.history(id, &wanted).await?;
        let items: Vec<_> = page
            .items
            .iter()
            .map(|item| job::show_item(id, item))
            .collect();
        let own = path::encode(&id.name);
        let path = format!(
            "{}/jobs/{own}/history",
            path::collection_url(&id.collection)
        );
        Ok(self.page(&items, &path, page.next))
    }

    /// One page. With `$top` there is no link to the next page: the client would follow it
    /// and get more than it requested.
    fn page(&self, items: &[Value], path: &str, next: Option<String>) -> SchedulerResponse {
        let next = next.filter(|_| self.query.get("$top").is_none());
        let link = next.map(|next| {
            let (version, cursor) = (self.query.version(), path::encode(&next));
            let filter = self.query.get("$filter");
            let filter = filter.map(|filter| format!("&$filter={}", path::encode(filter)));
            let (base, filter) = (&self.base, filter.unwrap_or_default());
            format!("{base}{path}?api-version={version}&cursor={cursor}{filter}")
        });
        SchedulerResponse::Shown(json!({"value": items, "nextLink": link}))
    }

    /// The next runs of a recurrence, without a stored job.
    pub(crate) fn preview(&self) -> Result<SchedulerResponse, SchedulerError> {
        let body = self.json()?;
        let object = JsonObject::new(&body, "")?;
        let now = object
            .time("now")?
            .unwrap_or_else(|| self.context.clock.now());
        let top = object.number_in("top", 1..=1000)?.unwrap_or(10) as usize;
        let (timing, count) = preview_timing(&body, &object, now)?;
        let plan = OccurrencePlan::new(&timing)?;
        let top = count.map_or(top, |count| top.min(count as usize));
        let runs: Vec<_> = plan.preview(now).take(top).map(iso::format_time).collect();
        Ok(SchedulerResponse::Shown(json!({"value": runs})))
    }
}

fn preview_timing(
    body: &Value,
    object: &JsonObject<'_>,
    now: Timestamp,
) -> Result<(JobTiming, Option<u32>), SchedulerError> {
    let extended = object.object("steadfast")?;
    let names = body.get("steadfast").unwrap_or(&Value::Null);
    let extended = extended
        .map(|found| extension::read(&found, names))
        .transpose()?;
    let extended = extended.unwrap_or_default();
    let repeat = object.object("recurrence")?;
    let repeat = repeat
        .map(|repeat| recurrence::read(&repeat, Some(now), true))
        .transpose()?;
    let repeat = extended.repeat(repeat, "steadfast")?;
    let count = repeat.as_ref().and_then(|repeat| repeat.count);
    let timing = JobTiming {
        start: object.time("startTime")?.map(|start| start.0),
        anchored: now.0,
        recurrence: repeat,
        cron: extended.cron,
        zone: extended.zone,
        gap: extended.gap,
        jitter_ms: 0,
    };
    Ok((timing, count))
}

fn expect(version: Option<u64>) -> Precondition {
    version.map_or(Precondition::Nothing, Precondition::Version)
}

fn kept_collection(
    home: Option<&dyn JobHome>,
    id: &CollectionId,
    found: &JobCollection,
    is_new: bool,
) -> SchedulerResponse {
    SchedulerResponse::Kept {
        is_new,
        version: found.version,
        body: collection::show(home, id, found),
    }
}

fn kept_job(id: &JobId, found: &Job, is_new: bool) -> SchedulerResponse {
    SchedulerResponse::Kept {
        is_new,
        version: found.definition.version,
        body: job::show(id, found),
    }
}
