//! The commit log: one thread writes, syncs and answers.
//!
//! Every group is one record, written and synced before the next one is begun. So
//! at most one record can be torn, and it is the last. The fence is checked here,
//! by the only thread that writes. A failed write or sync stops the log for good:
//! what the disk then holds is unknown until the folder is opened again.

use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition};
use steadfast_storage::engine::{AcquireOutcome, CasOutcome, Entry, EventBatch, Outcome};
use steadfast_storage::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use crate::control::ControlState;
use crate::events::EventFiles;
use crate::large_publications::{self, LargeStreams};
use crate::record::{self, HEADER_BYTES, Header, LogItem, LoggedBatch, LoggedEntry};
use crate::segment::Segment;
use crate::spare_files::SpareFiles;

/// A request to the log thread.
pub(crate) enum Request {
    Append(Vec<Entry>, oneshot::Sender<Result<Vec<Outcome>>>),
    Acquire {
        partition: Partition,
        owner: Owner,
        expect: Epoch,
        reply: oneshot::Sender<Result<AcquireOutcome>>,
    },
    Release {
        partition: Partition,
        epoch: Epoch,
        reply: oneshot::Sender<Result<()>>,
    },
    Cas {
        key: String,
        expect: u64,
        value: Bytes,
        reply: oneshot::Sender<Result<CasOutcome>>,
    },
    /// Tables and event files are synced up to this group.
    Mark(u64, oneshot::Sender<Result<()>>),
}

/// The state of the log thread.
pub(crate) struct CommitLog {
    pub(crate) control: Arc<Mutex<ControlState>>,
    pub(crate) events: Arc<EventFiles>,
    pub(crate) folder: PathBuf,
    pub(crate) salt: u64,
    /// Segments that are needed, oldest first; the last one is written.
    pub(crate) segments: VecDeque<LiveSegment>,
    pub(crate) next_segment: u64,
    /// Where the next record goes in the last segment.
    pub(crate) at: u64,
    /// The checksum of the last group.
    pub(crate) previous: u32,
    /// Replay starts here.
    pub(crate) mark: u64,
    pub(crate) spares: SpareFiles,
    /// Event bytes of one stream in one group from which they bypass the log.
    pub(crate) inline_bytes: usize,
    pub(crate) stopped: Option<Error>,
}

/// A segment with the last group in it.
pub(crate) struct LiveSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) last_group: u64,
}

/// Why writing a group failed.
enum GroupWriteError {
    /// Nothing of it was written.
    Nothing(Error),
    /// It may have been written.
    Doubt(Error),
}

/// Where a group was written.
struct GroupLocation {
    segment: Arc<Segment>,
    group: u64,
    /// Where its payload starts.
    payload: u64,
}

impl CommitLog {
    /// Serves requests until all senders are gone.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        while let Ok(request) = requests.recv() {
            self.serve(request);
        }
    }

    fn serve(&mut self, request: Request) {
        // A caller that has stopped waiting needs no answer.
        match request {
            Request::Append(entries, reply) => drop(reply.send(self.append(&entries))),
            Request::Acquire {
                partition,
                owner,
                expect,
                reply,
            } => drop(reply.send(self.acquire(partition, owner, expect))),
            Request::Release {
                partition,
                epoch,
                reply,
            } => drop(reply.send(self.release(partition, epoch))),
            Request::Cas {
                key,
                expect,
                value,
                reply,
            } => drop(reply.send(self.cas(&key, expect, &value))),
            Request::Mark(mark, reply) => drop(reply.send(self.set_mark(mark))),
        }
    }

    fn append(&mut self, entries: &[Entry]) -> Result<Vec<Outcome>> {
        let outcomes = self.check_fences(entries);
        let accepted: Vec<&Entry> = entries
            .iter()
            .zip(&outcomes)
            .filter_map(|(entry, outcome)| (*outcome == Outcome::Committed).then_some(entry))
            .collect();
        if accepted.is_empty() {
            return Ok(outcomes);
        }
        self.check_stopped()?;
        match self.write_entries(&accepted) {
            Ok(()) => Ok(outcomes),
            Err(GroupWriteError::Nothing(error)) => Err(error),
            Err(GroupWriteError::Doubt(error)) => {
                tracing::error!(event = "storage.log_stopped", %error, "the log has stopped");
                self.stopped = Some(error);
                Ok(outcomes.into_iter().map(doubt).collect())
            }
        }
    }

    /// Which entries carry the right epoch and the next number.
    fn check_fences(&self, entries: &[Entry]) -> Vec<Outcome> {
        let control = self.control.lock();
        let mut last: HashMap<Partition, EntryNumber> = HashMap::new();
        let check = |entry: &Entry| {
            let Some(fence) = control.partitions.get(&entry.partition) else {
                return Outcome::Fenced;
            };
            let last = last.entry(entry.partition).or_insert(fence.last);
            if fence.epoch != entry.epoch || last.next() != entry.number {
                return Outcome::Fenced;
            }
            *last = entry.number;
            Outcome::Committed
        };
        entries.iter().map(check).collect()
    }

    fn write_entries(&mut self, entries: &[&Entry]) -> std::result::Result<(), GroupWriteError> {
        let large = self.write_large(entries)?;
        let is_inline = |partition, batch: &EventBatch| {
            let key = (partition, batch.stream);
            !large.contains_key(&key)
        };
        let size: usize = entries.iter().map(|entry| entry.weight() + 64).sum();
        let mut record = Vec::with_capacity(HEADER_BYTES + size);
        record.resize(HEADER_BYTES, 0);
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            let start = (record.len() - HEADER_BYTES) as u32;
            let hash = entry.hash();
            let places =
                record::put_entry(&mut record, entry, hash, |b| is_inline(entry.partition, b));
            let range = start..(record.len() - HEADER_BYTES) as u32;
            items.push((range, LogItem::Entry(logged(entry, hash, places))));
        }
        let written = match self.write(record) {
            Ok(written) => written,
            Err(GroupWriteError::Nothing(error)) => return Err(self.take_back(large, error)),
            // The record may be there, and then it needs its events.
            Err(doubt) => return Err(doubt),
        };
        self.apply(written, items);
        Ok(())
    }

    /// Writes large publications to their streams' own files.
    fn write_large(
        &mut self,
        entries: &[&Entry],
    ) -> std::result::Result<LargeStreams, GroupWriteError> {
        let large = large_publications::find(entries, self.inline_bytes);
        match large_publications::write(&self.events, entries, &large) {
            Ok(()) => Ok(large),
            Err(large_publications::LargeWriteError::Written(error)) => {
                Err(self.take_back(large, error))
            }
            // After a failed sync the file system may have dropped what it could not
            // write, so nothing written so far can be trusted to be there.
            Err(large_publications::LargeWriteError::Synced(error)) => {
                Err(GroupWriteError::Doubt(error))
            }
        }
    }

    /// Removes event files that only refused batches have begun.
    fn take_back(&self, large: LargeStreams, error: Error) -> GroupWriteError {
        for ((partition, stream), end) in large {
            if let Err(error) = self.events.forget_from(partition, stream, end) {
                return GroupWriteError::Doubt(error);
            }
        }
        GroupWriteError::Nothing(error)
    }

    fn acquire(
        &mut self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        {
            let mut control = self.control.lock();
            let fence = control.fence(partition);
            let (epoch, holder) = (fence.epoch, fence.owner);
            if epoch != expect || control.leases.blocks(holder, owner) {
                return Ok(AcquireOutcome::Refused {
                    epoch,
                    owner: holder,
                });
            }
        }
        let epoch = expect.next();
        self.write_item(
            |record| record::put_acquire(record, partition, epoch, owner),
            LogItem::Acquire {
                partition,
                epoch,
                owner,
            },
        )?;
        Ok(AcquireOutcome::Granted(
            self.control.lock().fence(partition).tenure(),
        ))
    }

    fn release(&mut self, partition: Partition, epoch: Epoch) -> Result<()> {
        let found = self.control.lock().fence(partition).epoch;
        if found != epoch {
            return Err(Error::new(ErrorKind::Fenced {
                partition,
                epoch: found,
            }));
        }
        self.write_item(
            |record| record::put_release(record, partition, epoch),
            LogItem::Release { partition, epoch },
        )
    }

    fn cas(&mut self, key: &str, expect: u64, value: &Bytes) -> Result<CasOutcome> {
        let next = self.control.lock().records.next_version(key, expect);
        let version = match next {
            Ok(version) => version,
            Err(conflict) => return Ok(conflict),
        };
        self.write_item(
            |record| record::put_record(record, key, version, value),
            LogItem::Record {
                key: key.to_string(),
                version,
                value: value.clone(),
            },
        )?;
        Ok(CasOutcome::Done(version))
    }

    /// Writes the mark into the log; then older segments can be used again.
    fn set_mark(&mut self, mark: u64) -> Result<()> {
        self.check_stopped()?;
        self.mark = mark;
        let record = vec![0; HEADER_BYTES];
        match self.write(record) {
            Ok(written) => self.apply(written, Vec::new()),
            // Without room for it, the mark is written with the next group.
            Err(GroupWriteError::Nothing(_)) => return Ok(()),
            Err(failure) => return Err(self.stop(failure)),
        }
        self.recycle();
        Ok(())
    }

    fn recycle(&mut self) {
        while self.segments.len() > 1
            && self
                .segments
                .front()
                .is_some_and(|s| s.last_group < self.mark)
        {
            let Some(oldest) = self.segments.pop_front() else {
                return;
            };
            // A reader may still use it: retry at the next mark.
            match Arc::try_unwrap(oldest.segment) {
                Ok(segment) => self.spares.give(segment.slot),
                Err(segment) => {
                    self.segments.push_front(LiveSegment {
                        segment,
                        last_group: oldest.last_group,
                    });
                    return;
                }
            }
        }
    }

    fn write_item(&mut self, put: impl FnOnce(&mut Vec<u8>), item: LogItem) -> Result<()> {
        self.check_stopped()?;
        let mut record = vec![0; HEADER_BYTES];
        put(&mut record);
        let range = 0..(record.len() - HEADER_BYTES) as u32;
        let written = self.write(record).map_err(|failure| self.stop(failure))?;
        self.apply(written, vec![(range, item)]);
        Ok(())
    }

    /// Makes a group durable.
    fn write(
        &mut self,
        mut record: Vec<u8>,
    ) -> std::result::Result<GroupLocation, GroupWriteError> {
        let size = record.len().next_multiple_of(record::ALIGNMENT) as u64;
        // Room for a mark stays free at the end of every segment, so that a full
        // disk never keeps old segments from being recycled.
        let reserve = match record.len() {
            HEADER_BYTES => 0,
            _ => HEADER_BYTES as u64,
        };
        let segment = self
            .room_for(size, reserve)
            .map_err(GroupWriteError::Nothing)?;
        let group = self.control.lock().next_group;
        let header = Header {
            length: 0,
            number: group,
            segment: segment.number,
            mark: self.mark,
            salt: self.salt,
            previous: self.previous,
            checksum: 0,
        };
        let checksum = record::seal(&mut record, header);
        let file = &segment.slot.file;
        let done = file.write_all_at(&record, self.at);
        done.and_then(|()| file.sync_data()).map_err(|e| {
            let path = segment.slot.path.clone();
            GroupWriteError::Doubt(Error::caused(ErrorKind::LogStopped { path }, e))
        })?;
        let payload = self.at + HEADER_BYTES as u64;
        self.at += size;
        self.previous = checksum;
        if let Some(last) = self.segments.back_mut() {
            last.last_group = group;
        }
        Ok(GroupLocation {
            segment,
            group,
            payload,
        })
    }

    /// The segment that the next record goes to.
    fn room_for(&mut self, size: u64, reserve: u64) -> Result<Arc<Segment>> {
        if let Some(last) = self.segments.back()
            && self.at + size + reserve <= last.segment.slot.size
        {
            return Ok(Arc::clone(&last.segment));
        }
        let segment = Arc::new(Segment {
            slot: self.spares.take(size + reserve)?,
            number: self.next_segment,
        });
        self.next_segment += 1;
        self.at = 0;
        self.segments.push_back(LiveSegment {
            segment: Arc::clone(&segment),
            last_group: 0,
        });
        Ok(segment)
    }

    /// Makes a durable group known.
    fn apply(&self, written: GroupLocation, items: Vec<(std::ops::Range<u32>, LogItem)>) {
        let GroupLocation {
            segment,
            group,
            payload,
        } = written;
        let mut control = self.control.lock();
        for (range, item) in items {
            control.apply(item, group, &segment, payload, range);
        }
        control.next_group = group + 1;
    }

    fn stop(&mut self, failure: GroupWriteError) -> Error {
        match failure {
            GroupWriteError::Nothing(error) => error,
            GroupWriteError::Doubt(error) => {
                tracing::error!(event = "storage.log_stopped", %error, "the log has stopped");
                self.stopped = Some(error.clone());
                error
            }
        }
    }

    fn check_stopped(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(error) => {
                let path = self.folder.clone();
                Err(Error::caused(ErrorKind::LogStopped { path }, error.clone()))
            }
        }
    }
}

fn doubt(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Committed => Outcome::Unknown,
        outcome => outcome,
    }
}

fn logged(entry: &Entry, hash: u64, places: Vec<Option<u32>>) -> LoggedEntry {
    let batches = entry.batches.iter().zip(places);
    LoggedEntry {
        partition: entry.partition,
        epoch: entry.epoch,
        number: entry.number,
        hash,
        body: entry.body.clone(),
        batches: batches
            .map(|(batch, inline)| LoggedBatch::new(batch, inline))
            .collect(),
    }
}
