//! The client API for jobs and collections.
//!
//! Single jobs are read through their partition's owner loop. Lists are read from
//! durable rows outside it, so they cost the loop nothing, wherever the partitions
//! are served.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_partition::{
    Error as PartitionError, ErrorKind as PartitionErrorKind, Handle, Router, Runtime, Scan, Space,
    TurnError,
};

use crate::collection::{JobCollection, SweepKind};
use crate::command::{
    CollectionDraft, Job, JobCommand, JobDraft, JobResponse, NameRequest, Precondition,
};
use crate::error::{Error, ErrorKind, Result, check_size, refuse};
use crate::history::{JobHistoryItem, JobHistoryStatus};
use crate::id::{CollectionId, JobId};
use crate::rows::{self, COLLECTIONS, HISTORY, JOBS, STATUS, job_key};
use crate::runner::JobRunner;
use crate::service::JobScheduler;
use crate::status::{JobStatus, State};
use crate::sweeper;

/// The client for jobs and collections. Cheap to clone.
#[derive(Clone)]
pub struct JobClient {
    handle: Handle<JobScheduler>,
    space: std::sync::Arc<Space>,
    router: std::sync::Arc<Router>,
    runner: JobRunner,
    /// Read-only: this node only holds copies of the partitions.
    is_copy: bool,
    /// The paired region may have a collection of the same name: tickets are needed.
    is_shared: bool,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPage<T> {
    pub items: Vec<T>,
    /// The start of the next page, if there is one.
    pub next: Option<String>,
}

/// The requested part of a list.
#[derive(Clone, Debug)]
pub struct PageRequest<F> {
    /// Only items that match.
    pub filter: Option<F>,
    /// Skip this many matching items first.
    pub skip: usize,
    /// Return at most this many.
    pub limit: usize,
    /// The end of the previous page.
    pub behind: Option<String>,
}

impl<F> PageRequest<F> {
    /// The first `limit` items.
    pub fn first(limit: usize) -> Self {
        Self {
            filter: None,
            skip: 0,
            limit,
            behind: None,
        }
    }
}

/// How long a caller waits for a sweep before it gets a response.
const SWEEP_WAIT: Duration = Duration::from_secs(10);

impl JobClient {
    /// The client for the jobs of a runtime, whose performer for jobs is `runner`.
    pub fn new(runtime: &Runtime, runner: JobRunner) -> Self {
        Self {
            handle: runtime.handle(),
            space: std::sync::Arc::new(runtime.space().clone()),
            router: std::sync::Arc::clone(runtime.router()),
            runner,
            is_copy: false,
            is_shared: false,
        }
    }

    /// The same jobs, with collection names shared by a pair of regions: collections are
    /// created with tickets only.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// The same jobs, read from copies, which may be stale. Read-only.
    #[must_use]
    pub fn of_copies(&self, copies: Router) -> Self {
        Self {
            router: std::sync::Arc::new(copies),
            is_copy: true,
            ..self.clone()
        }
    }

    /// The time of its clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.runner.now()
    }

    /// The number of attempts of this node that wait for their host or are running.
    pub fn open_attempts(&self) -> usize {
        self.runner.open()
    }

    /// Starts no more attempts, as after the end of the process.
    pub fn stop(&self) {
        self.runner.stop();
    }

    /// A row of a copy.
    async fn copied<T: Record>(
        &self,
        home: &CollectionId,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<T>> {
        let window = self.router.reader(self.space.partition(&home.address()));
        let row = window.row(table, key).await?;
        Ok(row.and_then(|row| rows::decode(&row)))
    }

    async fn copied_collection(&self, id: &CollectionId) -> Result<JobCollection> {
        let key = id.address().name;
        let found = self.copied(id, COLLECTIONS, &key).await?;
        found.ok_or_else(|| refused(ErrorKind::NoCollection, "there is no such job collection"))
    }

    async fn copied_job(&self, id: &JobId) -> Result<Job> {
        let key = job_key(&id.address());
        let definition = self.copied(&id.collection, JOBS, &key).await?;
        let status = self.copied(&id.collection, STATUS, &key).await?;
        let missing = || refused(ErrorKind::NoJob, "there is no such job");
        Ok(Job {
            definition: definition.ok_or_else(missing)?,
            status: status.unwrap_or_default(),
        })
    }

    async fn ask_collection(&self, id: &CollectionId, ask: JobCommand) -> Result<JobResponse> {
        Ok(self.handle.call(id.address(), ask).await?)
    }

    async fn ask_job(&self, id: &JobId, ask: JobCommand) -> Result<JobResponse> {
        let home = self.space.partition(&id.collection.address());
        Ok(self.handle.call_in(home, id.address(), ask).await?)
    }

    /// A collection.
    pub async fn collection(&self, id: &CollectionId) -> Result<JobCollection> {
        if self.is_copy {
            return self.copied_collection(id).await;
        }
        collection_of(self.ask_collection(id, JobCommand::GetCollection).await?)
    }

    /// Creates or replaces a collection.
    pub async fn put_collection(
        &self,
        draft: CollectionDraft,
        expect: Precondition,
    ) -> Result<JobCollection> {
        check_size([draft.document.as_bytes()])?;
        if self.is_shared && expect == Precondition::Nothing {
            let message = "a job collection of a pair of regions is created by REST, \
                           which reserves its name in both regions";
            return Err(refused(ErrorKind::Taken, message));
        }
        let id = draft.id.clone();
        let ask = JobCommand::PutCollection {
            draft: Box::new(draft),
            expect,
        };
        collection_of(self.ask_collection(&id, ask).await?)
    }

    /// Requests a ticket for a collection name shared by a pair of regions, in the region
    /// that does not have the collection.
    pub async fn name(&self, id: &CollectionId, naming: NameRequest) -> Result<u64> {
        match self.ask_collection(id, JobCommand::Name(naming)).await? {
            JobResponse::Ticket(ticket) => Ok(ticket),
            _ => Err(unexpected_reply()),
        }
    }

    /// Starts a sweep over all jobs of a collection, which runs in the background;
    /// returns its number.
    pub async fn sweep(&self, id: &CollectionId, kind: SweepKind) -> Result<u64> {
        let begun = collection_of(self.ask_collection(id, JobCommand::Sweep(kind)).await?)?;
        Ok(begun.sweep.map_or(0, |sweep| sweep.number))
    }

    /// Waits some seconds for the end of a sweep; returns whether it has ended.
    pub async fn swept(&self, id: &CollectionId, number: u64) -> Result<bool> {
        let mut swept = self.runner.swept();
        let is_over = async {
            while self.is_sweeping(id, number).await? {
                if swept.changed().await.is_err() {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match tokio::time::timeout(SWEEP_WAIT, is_over).await {
            Ok(result) => result,
            Err(_) => Ok(false),
        }
    }

    /// Whether a sweep is still running.
    pub async fn is_sweeping(&self, id: &CollectionId, number: u64) -> Result<bool> {
        match self.collection(id).await {
            Ok(found) => Ok(found.sweep.is_some_and(|sweep| sweep.number == number)),
            Err(error) if error.kind() == ErrorKind::NoCollection => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A job.
    pub async fn job(&self, id: &JobId) -> Result<Job> {
        if self.is_copy {
            return self.copied_job(id).await;
        }
        job_of(self.ask_job(id, JobCommand::Get).await?)
    }

    /// Creates or replaces a job.
    pub async fn put(&self, draft: JobDraft, expect: Precondition) -> Result<Job> {
        check_size(draft.texts())?;
        let id = draft.id.clone();
        let draft = Box::new(draft);
        job_of(self.ask_job(&id, JobCommand::Put { draft, expect }).await?)
    }

    /// Deletes a job.
    pub async fn delete(&self, id: &JobId) -> Result<()> {
        self.ask_job(id, JobCommand::Delete).await.map(drop)
    }

    /// Runs a job now; a repeated request does nothing.
    pub async fn run(&self, id: &JobId, request: Option<String>) -> Result<()> {
        self.ask_job(id, JobCommand::Run(request)).await.map(drop)
    }

    /// Runs the occurrences between two times, in milliseconds since 1970.
    pub async fn backfill(&self, id: &JobId, from: i64, until: i64) -> Result<()> {
        self.ask_job(id, JobCommand::Backfill { from, until })
            .await
            .map(drop)
    }

    /// Pauses a job.
    pub async fn pause(&self, id: &JobId, reason: String) -> Result<()> {
        self.ask_job(id, JobCommand::Pause(reason)).await.map(drop)
    }

    /// Resumes a paused job.
    pub async fn resume(&self, id: &JobId) -> Result<()> {
        self.ask_job(id, JobCommand::Resume).await.map(drop)
    }

    /// All collections of a subscription, or of one of its groups.
    pub async fn collections(
        &self,
        subscription: &str,
        group: Option<&str>,
    ) -> Result<Vec<JobCollection>> {
        let mut prefix = subscription.to_lowercase();
        if let Some(group) = group {
            prefix.push('\0');
            prefix.push_str(&group.to_lowercase());
        }
        let (first, last) = sweeper::borders(prefix.as_bytes());
        let mut found: Vec<JobCollection> = Vec::new();
        for partition in self.space.all() {
            let snapshot = self.router.reader(partition).view()?;
            let mut from = Bound::Included(first.clone());
            loop {
                let to = Bound::Excluded(last.clone());
                let scan = Scan {
                    from,
                    to,
                    limit: limits::SCAN_ROWS,
                };
                let rows = snapshot.scan(COLLECTIONS, scan).await?;
                found.extend(rows.iter().filter_map(|row| rows::decode(&row.value)));
                match rows.last() {
                    Some(last) if rows.len() == limits::SCAN_ROWS => {
                        from = Bound::Excluded(last.key.clone())
                    }
                    _ => break,
                }
            }
        }
        found.sort_by_key(|collection| collection.id.key());
        Ok(found)
    }

    /// Jobs of a collection by name.
    pub async fn list(
        &self,
        id: &CollectionId,
        wanted: &PageRequest<State>,
    ) -> Result<JobPage<Job>> {
        self.collection(id).await?;
        let window = self.router.reader(self.space.partition(&id.address()));
        let collection = id.key();
        let (mut items, mut skip) = (Vec::new(), wanted.skip);
        let mut behind = wanted.behind.as_ref().map(|name| key_of(&collection, name));
        loop {
            let rows = sweeper::page(
                &window,
                &collection,
                behind.as_ref(),
                limits::SCAN_ROWS / 10,
            )
            .await?;
            let Some(last) = rows.last() else {
                return Ok(JobPage { items, next: None });
            };
            behind = Some(last.key.clone());
            let snapshot = window.view()?;
            for row in &rows {
                let status = snapshot.get(STATUS, &row.key).await?;
                let status: JobStatus = status
                    .and_then(|row| rows::decode(&row))
                    .unwrap_or_default();
                let Some(definition) = rows::decode(&row.value) else {
                    continue;
                };
                if wanted.filter.is_some_and(|state| state != status.state) {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                if items.len() == wanted.limit {
                    let last: &Job = items.last().expect("a page holds at least one item");
                    let next = Some(last.definition.id.name.to_lowercase());
                    return Ok(JobPage { items, next });
                }
                items.push(Job { definition, status });
            }
        }
    }

    /// The history of a job, newest first.
    pub async fn history(
        &self,
        id: &JobId,
        wanted: &PageRequest<JobHistoryStatus>,
    ) -> Result<JobPage<JobHistoryItem>> {
        self.job(id).await?;
        let window = self
            .router
            .reader(self.space.partition(&id.collection.address()));
        let key = job_key(&id.address());
        let (first, last) = sweeper::borders(&key);
        let from = match wanted
            .behind
            .as_deref()
            .and_then(|number| number.parse().ok())
        {
            Some(number) => Bound::Excluded(rows::history_key(&key, number).into()),
            None => Bound::Included(first),
        };
        let scan = Scan {
            from,
            to: Bound::Excluded(last),
            limit: limits::SCAN_ROWS,
        };
        let rows = window.view()?.scan(HISTORY, scan).await?;
        let decoded = rows
            .iter()
            .filter_map(|row| rows::decode::<JobHistoryItem>(&row.value));
        let oldest = self.runner.now().0 - limits::HISTORY_AGE.as_millis() as i64;
        let fits = |item: &JobHistoryItem| {
            let is_wanted = wanted.filter.is_none_or(|verdict| verdict == item.verdict);
            is_wanted && item.started >= oldest
        };
        let mut items: Vec<_> = decoded
            .filter(fits)
            .skip(wanted.skip)
            .take(wanted.limit + 1)
            .collect();
        let has_more = items.len() > wanted.limit;
        items.truncate(wanted.limit);
        let next = items
            .last()
            .filter(|_| has_more)
            .map(|item| item.number.to_string());
        Ok(JobPage { items, next })
    }
}

pub(crate) fn refused(kind: ErrorKind, message: &str) -> Error {
    match refuse(kind, message) {
        TurnError::Refused(refusal) => {
            PartitionError::new(PartitionErrorKind::Refused(refusal)).into()
        }
        _ => unexpected_reply(),
    }
}

fn key_of(collection: &str, name: &str) -> Bytes {
    format!("{collection}\0{}", name.to_lowercase()).into()
}

fn collection_of(say: JobResponse) -> Result<JobCollection> {
    match say {
        JobResponse::Collection(collection) => Ok(*collection),
        _ => Err(unexpected_reply()),
    }
}

fn job_of(say: JobResponse) -> Result<Job> {
    match say {
        JobResponse::Job(job) => Ok(*job),
        _ => Err(unexpected_reply()),
    }
}

fn unexpected_reply() -> Error {
    Error::from(PartitionError::new(PartitionErrorKind::Malformed {
        what: "the reply",
    }))
}
