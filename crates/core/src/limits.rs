//! Every bound, in one place.
//!
//! Queues, batches, caches and retries take their bounds from here. Few are
//! settings: a bound becomes one when a user needs to change it.

use std::time::Duration;

/// Longest key of a row.
pub const KEY_BYTES: usize = 4 * 1024;

/// How deeply records, lists and maps in a value may be nested.
pub const RECORD_DEPTH: usize = 64;

/// Largest stored value, with its envelope.
pub const VALUE_BYTES: usize = TRANSACTION_BYTES;

/// Largest transaction that a service may commit.
pub const TRANSACTION_BYTES: usize = 32 * 1024 * 1024;

/// Most bytes that are reserved for a transaction, estimated from those before.
pub const EXPECTED_TRANSACTION_BYTES: usize = 16 * 1024;

/// Bytes after which a group is closed.
pub const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Entries that are larger share a group with one another only, so that small ones
/// need not wait for them.
pub const LARGE_ENTRY_BYTES: usize = 1024 * 1024;

/// Largest event batch.
pub const EVENT_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How fast a flush writes at most, in bytes per second.
pub const FLUSH_RATE_BYTES: u64 = 128 * 1024 * 1024;

/// Unflushed log bytes of a node at which flushing starts.
pub const LOG_TARGET_BYTES: u64 = 64 * 1024 * 1024;

/// Unflushed log bytes of a node at which writers are throttled.
pub const LOG_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Memory for cached rows.
pub const ROW_CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// Memory for the tails of event streams.
pub const EVENT_TAIL_BYTES: u64 = 128 * 1024 * 1024;

/// How long a snapshot may be held before it is faulted.
pub const SNAPSHOT_AGE: Duration = Duration::from_secs(30);

/// Rows that one page of a scan holds at most.
pub const SCAN_ROWS: usize = 10_000;

/// Event bytes of one stream in one group from which they bypass the log.
pub const INLINE_EVENT_BYTES: usize = 64 * 1024;

/// Partitions that a space has at most.
pub const PARTITIONS: u16 = 4096;

/// Commands that may wait in front of a partition.
pub const MAILBOX: usize = 1024;

/// Callers of a partition that may wait for durability or for rows.
pub const OPEN_CALLS: usize = 16 * 1024;

/// Callers of a partition that may wait for the answer of a later turn.
pub const LATE_ANSWERS: usize = 64 * 1024;

/// Commands that a partition handles before it looks at anything else.
pub const TURN_COMMANDS: usize = 128;

/// Commands after which a partition checks the time that its turn has taken.
pub const TURN_LOOK: usize = 16;

/// About how long a partition handles commands before it looks at anything else.
pub const TURN_TIME: Duration = Duration::from_micros(300);

/// Rows of messages that have arrived, removed by one commit.
pub const SWEPT_ROWS: usize = 256;

/// Timers of a partition that are kept in memory.
pub const NEAR_TIMERS: usize = 4 * 1024;

/// Timers that are read ahead of those, so that a burst does not delay them.
pub const FRESH_TIMERS: usize = 512;

/// Messages to one partition that are kept in memory.
pub const LINK_QUEUE: usize = 4096;

/// Messages that travel together at most.
pub const PARCEL_MESSAGES: usize = 512;

/// Bytes that travel together, unless one message has more.
pub const PARCEL_BYTES: usize = 1024 * 1024;

/// How long a drain may take before the rest is closed, unless set otherwise.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// How many guests (clients or partitions) a drain moves at a time.
pub const DRAIN_MOVES: usize = 1024;

/// Largest transaction over collections.
pub const PUBLIC_TRANSACTION_BYTES: usize = 1024 * 1024;

/// Default time-out of an operation on a collection for its locks.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the checks of a transaction's messages may take; it holds its locks until then.
pub const MESSAGE_CHECK: Duration = Duration::from_secs(10);

/// How long a transaction over collections may stay open before it is faulted.
pub const TRANSACTION_AGE: Duration = Duration::from_secs(30);

/// Memory for the resident rows of one partition's collections.
pub const RESIDENT_BYTES: usize = 64 * 1024 * 1024;

/// Longest name of a collection or service.
pub const NAME_BYTES: usize = 1024;

/// Notifications that a subscriber may be behind before it must rebuild.
pub const NOTICES: usize = 4096;

/// How often `transact` tries a transaction, and its first and longest pause.
pub const TRANSACT_ATTEMPTS: u32 = 12;
pub const TRANSACT_FIRST_PAUSE: Duration = Duration::from_millis(2);
pub const TRANSACT_LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often `transact` yields to older transactions that wait for it, and its longest pause
/// then. It keeps its age, so it is the oldest one long before that.
pub const TRANSACT_DEADLOCKS: u32 = 1000;
pub const TRANSACT_LONGEST_YIELD: Duration = Duration::from_millis(50);

/// Transactions that a search for a cycle of waits looks at, and cycles that one new
/// wait may close. What is not found ends with its time-out.
pub const DEADLOCK_SEARCH: usize = 10_000;
pub const DEADLOCK_PASSES: usize = 64;

/// Locks of a waiting transaction that are looked at before a search, to see whether
/// another transaction waits for one of them.
pub const DEADLOCK_HELD: usize = 64;

/// Partitions that a service may have.
pub const SERVICE_PARTITIONS: u32 = 65_536;

/// Bytes that a block of a backup's file holds before the next one is begun.
pub const BACKUP_BLOCK_BYTES: usize = 256 * 1024;

/// Shortest text of a key that seals backups: a shorter one can be guessed.
pub const BACKUP_KEY_BYTES: usize = 16;

/// Rows that a backup reads in one go.
pub const BACKUP_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Committed bytes that may wait for a backup before it gives up: writers never
/// wait for it.
pub const BACKUP_TAP_BYTES: usize = 64 * 1024 * 1024;

/// Changed rows that a backup keeps in memory before it writes them to a file.
pub const BACKUP_DELTA_BYTES: usize = 64 * 1024 * 1024;

/// Longest key of a cluster record in a database: it must fit into an index row.
pub const RECORD_KEY_BYTES: usize = 2_000;

/// Rows or events that a restore brings into the tables in one go.
pub const RESTORE_FLUSH_BYTES: usize = 64 * 1024 * 1024;

/// Rows that are held at a time when a collection is inspected.
pub const INSPECT_ROWS: usize = 1_000;

/// How deeply values may be nested in AMQP.
pub const AMQP_DEPTH: usize = 32;

/// Elements of an AMQP array that have no bytes of their own.
pub const AMQP_EMPTY_ELEMENTS: u32 = 1024;

/// Largest AMQP frame that is accepted, and written.
pub const AMQP_FRAME_BYTES: u32 = 64 * 1024;

/// Connections that a listener has at a time, whatever is configured.
pub const CONNECTIONS: usize = 1_000_000;

/// Default limit of a node's unauthenticated connections; and over how many client
/// addresses it is divided, so that one address cannot use all of it.
pub const UNPROVEN_CONNECTIONS: usize = 1_000;
pub const UNPROVEN_ADDRESSES: usize = 4;

/// Connections that were closed unauthenticated and whose memory may not be freed yet;
/// then the next one waits.
pub const LEAVING_CONNECTIONS: usize = 100;

/// Bytes buffered for one unauthenticated connection: one more read stays below 256 KiB.
/// And for all of them together; past that the largest is closed.
pub const UNPROVEN_BYTES: usize = 192 * 1024;
pub const UNPROVEN_ALL_BYTES: usize = 24 * 1024 * 1024;

/// Bytes that an idle connection counts for: its task and its buffers.
pub const CONNECTION_UNPROVEN_BYTES: usize = 8 * 1024;

/// What TLS keeps of a client at most: a handshake message and a record; after the
/// handshake a record and the content of one.
pub const TLS_HANDSHAKE_BYTES: usize = 82 * 1024;
pub const TLS_RECORD_BYTES: usize = 36 * 1024;

/// Time-out of a connection's authentication, and of the protocol's closing exchange
/// after that.
pub const PROOF_TIME: Duration = Duration::from_secs(30);
pub const PROOF_GRACE: Duration = Duration::from_secs(5);

/// Default memory limits of one authenticated connection, and of all of them together.
pub const CONNECTION_BYTES: usize = 32 * 1024 * 1024;
pub const CONNECTIONS_BYTES: usize = 256 * 1024 * 1024;

/// Sessions and links of an unauthenticated AMQP connection; and bytes that may wait
/// to be written to it.
pub const AMQP_UNPROVEN_SESSIONS: usize = 8;
pub const AMQP_UNPROVEN_LINKS: usize = 32;
pub const AMQP_UNPROVEN_OUT_BYTES: usize = 16 * 1024;

/// Longest message of an unauthenticated WebSocket: a frame of AMQP; and before the
/// handshake of a hub.
pub const AMQP_UNPROVEN_MESSAGE: usize = AMQP_FRAME_BYTES as usize;
pub const HUB_UNGREETED_MESSAGE: usize = 8 * 1024;

/// How long an HTTP client may accept no bytes while some wait to be written.
pub const HTTP_WRITE_TIME: Duration = Duration::from_secs(60);

/// Events in one response of the REST interface that reads a partition.
pub const TAIL_EVENTS: usize = 1000;

/// Bytes of events after which such a response ends.
pub const TAIL_BYTES: usize = 1024 * 1024;

/// How long such a request may wait for its first event.
pub const TAIL_WAIT: Duration = Duration::from_secs(30);

/// The last lines of the log that a server keeps in memory, and the longest of them.
pub const LOG_RING_BYTES: usize = 1024 * 1024;
pub const LOG_LINE_BYTES: usize = 16 * 1024;

/// Longest idempotency key of a transaction over REST.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;

/// Idempotency keys that one partition of a service remembers of one day.
pub const IDEMPOTENCY_KEYS: u64 = 100_000;

/// Largest body of a request to our own REST interface.
pub const REST_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long a client may take to send the headers of a request.
pub const HEADER_TIME: Duration = Duration::from_secs(10);

/// Requests that one HTTP/2 connection has under way at a time.
pub const HTTP_STREAMS: u32 = 1000;

/// What an HTTP/2 client may send before it is read, on a connection and on a stream;
/// and what is buffered for one that does not read, per stream.
pub const HTTP_WINDOW_BYTES: u32 = 1024 * 1024;
pub const HTTP_SEND_BYTES: usize = 64 * 1024;

/// Largest message of a gRPC client.
pub const GRPC_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The texts of one job.
pub const JOB_BYTES: usize = 16 * 1024 * 1024;

/// Results of work items in one call.
pub const RESULTS_AT_ONCE: usize = 256;

/// Keep-alive interval of the work item streams of the Durable Task protocol: workers
/// that receive nothing reconnect.
pub const WORK_PING: Duration = Duration::from_secs(30);

/// Size of a history from which on workers that can fetch it themselves must do so.
pub const STREAMED_HISTORY_BYTES: u64 = 1024 * 1024;

/// Events of a history that travel together, unless one alone is larger.
pub const HISTORY_CHUNK_BYTES: usize = 256 * 1024;

/// Largest message to a worker that does not announce a larger limit: the default
/// of all gRPC libraries.
pub const WORKER_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// A turn that is sent in a message of this size is worth a warning: the next ones may
/// be too large for the worker.
pub const LONG_TURN_BYTES: usize = 3_900_000;

/// Items on a page of a gRPC answer, and its length: clients take 4 MiB.
pub const GRPC_PAGE: usize = 1000;
pub const GRPC_PAGE_BYTES: usize = 3_500_000;

/// Instances that one request may name.
pub const INSTANCE_BATCH: usize = 500;

/// How long a REST client may wait for the end of an instance or for an entity.
pub const REST_WAIT: Duration = Duration::from_secs(230);

/// Nested causes in one failure.
pub const FAILURE_DEPTH: usize = 16;

/// AMQP channels of one connection, less one; and handles of one session, less one.
pub const AMQP_CHANNEL_MAX: u16 = 4999;
pub const AMQP_HANDLE_MAX: u32 = 255;

/// Links of one AMQP connection.
pub const AMQP_LINKS: usize = 4096;

/// Transfers that a peer may send before we acknowledge them.
pub const AMQP_WINDOW: u32 = 5000;

/// Messages that a client may send on a link before we grant more.
pub const AMQP_CREDIT: u32 = 1000;

/// Requests, such as tokens, that a client may send on a link.
pub const AMQP_REQUESTS: u32 = 100;

/// Largest request, such as a token.
pub const AMQP_REQUEST_BYTES: usize = 64 * 1024;

/// Least delay of the response to a request to `$cbs` or `$management`. Rust clients
/// (fe2o3-amqp up to 0.16) register a request only after sending it, and hang if the
/// response is faster.
pub const AMQP_REPLY_PAUSE: Duration = Duration::from_millis(2);

/// Replies that wait for credit of one link, and the bytes of those of one connection.
pub const AMQP_REPLIES: usize = 100;
pub const AMQP_REPLY_BYTES: usize = 1024 * 1024;

/// Bytes of one connection's publications that are not durable yet; then it is not read.
pub const AMQP_TAKEN_BYTES: usize = 16 * 1024 * 1024;

/// Unfinished messages of one connection.
pub const AMQP_PARTIAL_BYTES: usize = 16 * 1024 * 1024;

/// Largest message that readers must accept: a publication's, and what the broker adds.
pub const AMQP_DELIVERY_BYTES: usize = 2 * PUBLICATION_BYTES;

/// Bytes that wait to be written to one connection; then nothing is added.
pub const AMQP_OUT_BYTES: usize = 256 * 1024;

/// Read buffer of one connection: small while it is quiet, larger under load.
pub const AMQP_QUIET_BYTES: usize = 4 * 1024;

/// Read buffer of an unauthenticated connection; larger if one frame needs it.
pub const AMQP_UNPROVEN_READ_BYTES: usize = 1024;
pub const AMQP_READ_BYTES: usize = 256 * 1024;

/// Idle time-out of an AMQP client, and time-out of its authentication.
pub const AMQP_IDLE: Duration = Duration::from_secs(120);
pub const AMQP_HANDSHAKE: Duration = Duration::from_secs(30);

/// Tokens that one connection has put through `$cbs`.
pub const AMQP_TOKENS: usize = 1024;
/// Event hubs of a space.
pub const EVENT_HUBS: usize = 4096;

/// Partitions of one event hub.
pub const EVENT_HUB_PARTITIONS: u32 = 1024;

/// Consumer groups of one event hub.
pub const CONSUMER_GROUPS: usize = 1000;

/// Access policies of one event hub.
pub const HUB_POLICIES: usize = 12;

/// Longest name of an event hub, and of a consumer group, in characters.
pub const EVENT_HUB_NAME: usize = 256;
pub const CONSUMER_GROUP_NAME: usize = 50;

/// Event bytes of one publication.
pub const PUBLICATION_BYTES: usize = 1024 * 1024;

/// Events of one publication.
pub const PUBLICATION_EVENTS: u32 = 256 * 1024;

/// Longest partition key, in bytes.
pub const PARTITION_KEY_BYTES: usize = 1024;

/// Readers without an epoch that one partition of an event hub has per group.
pub const GROUP_READERS: usize = 5;

/// Bytes that a reader of events reads ahead, unless one publication has more.
pub const READER_BYTES: usize = 128 * 1024;

/// Idempotent producers that a partition of an event hub remembers.
pub const PRODUCERS: u64 = 4096;

/// Publications of an idempotent producer that are recognised when they come again.
pub const PRODUCER_PUBLICATIONS: usize = 16;

/// Dead letters that a consumer group may have in one partition.
pub const PARKED_EVENTS: usize = 1000;

/// In how many steps a full retention is trimmed.
pub const RETENTION_STEPS: u64 = 32;

/// Largest body of a blob, and what one of its rows holds.
pub const BLOB_BYTES: usize = 256 * 1024 * 1024;
pub const BLOB_PIECE_BYTES: usize = 256 * 1024;

/// Largest body that is written by one command.
pub const BLOB_PUT_BYTES: usize = 16 * 1024 * 1024;

/// What one command of an upload carries; an upload holds about twice as much.
pub const BLOB_STAGE_BYTES: usize = 1024 * 1024;

/// Bytes per second that all uploads of a node write: half of what a flush does, so
/// that they throttle no other writer.
pub const BLOB_UPLOAD_RATE_BYTES: u64 = FLUSH_RATE_BYTES / 2;

/// How long an upload may stay uncommitted.
pub const BLOB_STAGE_TIME: Duration = Duration::from_secs(3600);

/// Blocks of one blob, the length of a block's id, and how long blocks wait to be
/// committed.
pub const BLOB_BLOCKS: usize = 4096;
pub const BLOB_BLOCK_ID_BYTES: usize = 64;
pub const BLOB_BLOCK_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// What all blobs of an account take together, unless set otherwise; and what each blob
/// and each block counts beside its body, for its name and metadata.
pub const BLOB_ACCOUNT_BYTES: u64 = u64::MAX;
pub const BLOB_ENTRY_BYTES: u64 = 1024;

/// How much more of an account's limit a partition takes than it needs at once, and how
/// often a write claims an allowance that other writers use up.
pub const BLOB_ALLOWANCE_BYTES: u64 = 64 * 1024 * 1024;
pub const BLOB_CLAIMS: u32 = 16;

/// Longest name of a blob, and all its metadata together.
pub const BLOB_NAME_BYTES: usize = 1024;
pub const BLOB_METADATA_BYTES: usize = 8 * 1024;

/// Blobs that one request to the REST interface lists or deletes.
pub const BLOB_PAGE: usize = 1000;

/// Blobs that are examined to find those that SDKs keep for one consumer group.
pub const KEPT_BLOBS: usize = 100_000;

/// Bodies of blobs that are being read from their writers, together.
pub const BLOB_BODIES_BYTES: usize = 128 * 1024 * 1024;

/// History items that a job keeps at most.
pub const HISTORY_ITEMS: u64 = 1000;

/// History items that all jobs of a partition keep together, about: with more jobs
/// each keeps fewer, but never fewer than a handful.
pub const PARTITION_HISTORY_ITEMS: u64 = 64 * 1024;
pub const FEWEST_HISTORY_ITEMS: u64 = 10;

/// How long a history item and a finished job are kept.
pub const HISTORY_AGE: Duration = Duration::from_secs(60 * 24 * 3600);

/// Longest message of a history item.
pub const HISTORY_MESSAGE_BYTES: usize = 8 * 1024;

/// Missed occurrences of one job that may wait to be caught up.
pub const WAITING_RUNS: usize = 1000;

/// Occurrences of one job that may be under way together.
pub const OPEN_RUNS: usize = 64;

/// Requests to run a job that are remembered, and for how long.
pub const RUN_REQUESTS: usize = 256;
pub const RUN_REQUEST_AGE: Duration = Duration::from_secs(300);

/// Calls to one host, and to all hosts, that may be under way together.
pub const HOST_CALLS: usize = 64;
pub const OUTBOUND_CALLS: usize = 1024;

/// An occurrence that is later than this is left out by a job that skips late ones.
pub const MISFIRE: Duration = Duration::from_secs(5);

/// An occurrence that is later than this was missed: it merges into no other one.
pub const ON_TIME: Duration = Duration::from_secs(1);

/// Jobs that a sweep over a collection handles together.
pub const SWEEP_JOBS: usize = 128;

/// How long a client may take to send the body of a request, and the bytes that earn it
/// a further second.
pub const BODY_TIME: Duration = Duration::from_secs(30);
pub const BODY_RATE_BYTES: usize = 256 * 1024;

/// Bodies of requests that are in memory, together, beyond the first bytes of each; how
/// much of that a body of unknown length gets at least; and how long it waits for it.
pub const BODIES_BYTES: usize = 96 * 1024 * 1024;
pub const BODY_FREE_BYTES: usize = 16 * 1024;
pub const BODY_STEP_BYTES: usize = 64 * 1024;
pub const BODY_WAIT: Duration = Duration::from_secs(5);

/// Clients with bodies that are tracked; then those without buffered bytes are dropped.
pub const BODY_SENDERS: usize = 1024;

/// How long a client may leave a ready piece of a response unread.
pub const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Pieces in which responses are sent, and unread responses from which on the next
/// requests of a connection wait.
pub const ANSWER_PIECE_BYTES: usize = 16 * 1024;
pub const ANSWERS_BYTES: usize = 16 * 1024 * 1024;

/// Unread responses from which on the next requests of an unauthenticated connection
/// wait. Until it authenticates, its requests are handled one at a time.
pub const ANSWERS_UNPROVEN_BYTES: usize = 16 * 1024;

/// What a request of an unauthenticated connection counts for beside its head while it
/// waits for its response: its stream, its task, and its table entries.
pub const REQUEST_UNPROVEN_BYTES: usize = 6 * 1024;

/// Bytes read at once from an unauthenticated HTTP connection: they may hold many
/// requests, which count once they were read.
pub const HTTP_UNPROVEN_READ_BYTES: usize = 512;

/// Requests that an unauthenticated connection may cancel; then it is closed.
pub const HTTP_UNPROVEN_CANCELLED: usize = 100;

/// What a response counts for before it is sent.
pub const ANSWER_CHARGED_BYTES: u64 = 1024 * 1024;

/// Bytes that are read and dropped of a body that is too large, so that its sender
/// reads the response.
pub const BODY_REST_BYTES: usize = 32 * 1024 * 1024;

/// What is read and dropped of a request that HTTP/1 has answered before its end, and for
/// how long: closed with unread bytes, TCP resets a connection before its answer is read.
pub const LINGER_BYTES: usize = 2 * 1024 * 1024;
pub const LINGER_TIME: Duration = Duration::from_secs(5);

/// Longest head of a request: its line and all its headers.
pub const HTTP_HEAD_BYTES: usize = 64 * 1024;

/// Idle time after which an HTTP/2 client is sent a ping.
pub const PING_TIME: Duration = Duration::from_secs(30);

/// Longest drain time that may be set.
pub const DRAIN_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Keys in the key file. A secret without a key name is compared with all of them.
pub const KEYS: usize = 1_000;

/// Rights that one key may be given.
pub const RIGHTS: usize = 100;

/// Events of the audit that are kept in memory, and their bytes: as many of key changes
/// as of refusals.
pub const AUDIT_EVENTS: usize = 1_000;
pub const AUDIT_BYTES: usize = 512 * 1024;

/// The longest text of an audit event, and the longest list of rights, in bytes.
pub const AUDIT_TEXT: usize = 256;
pub const AUDIT_RIGHTS: usize = 4_096;

/// How long refusals of one client with one code count as one audit event, and how many
/// clients and codes are told apart.
pub const AUDIT_WINDOW: Duration = Duration::from_secs(60);
pub const AUDIT_WINDOWS: usize = 1_024;

/// Audit events in one response.
pub const AUDIT_PAGE: usize = 1_000;

/// Items of a page of a list of the native REST interface: usual, and at most.
pub const LIST_PAGE: usize = 100;
pub const LIST_PAGE_MOST: usize = 1_000;

/// How often a node of a cluster checks the policies of its connections: another
/// node may have changed them.
pub const POLICY_LOOK: Duration = Duration::from_secs(2);

/// The longest id of an instance, in characters.
pub const INSTANCE_ID: usize = 100;

/// The longest name of a task hub.
pub const TASK_HUB_NAME: usize = 64;

/// The largest payload of an orchestration, activity or entity. One commit may hold
/// four copies: the input in the history, and the result in the history, in the row of
/// the instance and in the message to its parent.
pub const PAYLOAD_BYTES: usize = 6 * 1024 * 1024;

/// Events of a history that share a row, unless one alone is larger.
pub const HISTORY_ROW_BYTES: usize = 1024 * 1024;

/// Memory for histories that were read lately, of all task hubs of a node.
pub const HISTORY_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The share of it that one task hub has.
pub const HISTORY_CACHE_HUB_BYTES: u64 = HISTORY_CACHE_BYTES / 2;

/// What states of entities that were committed lately take in memory, for all task hubs.
pub const WARM_STATES_BYTES: u64 = 32 * 1024 * 1024;

/// The share of it that one task hub has.
pub const WARM_STATES_HUB_BYTES: u64 = WARM_STATES_BYTES / 2;

/// Instances of a task hub whose last worker is remembered.
pub const HABITS: usize = 16 * 1024;

/// The last worker of an instance is forgotten after this time, at twice this at the
/// latest.
pub const HABIT_AGE: Duration = Duration::from_secs(60);

/// Task hubs in memory from which on idle ones are dropped.
pub const TASK_HUB_DESKS: usize = 256;

/// Requests that may wait for an entity; past that, clients get a throttling error.
pub const ENTITY_QUEUE: u64 = 10_000;

/// Operations of an entity that a worker gets at a time.
pub const BATCH_OPERATIONS: usize = 500;

/// Bytes of events or operations that a worker gets at a time, unless one alone is
/// larger.
pub const WORK_BYTES: usize = 4 * 1024 * 1024;

/// Events that one turn takes from an inbox.
pub const TURN_EVENTS: usize = 10_000;

/// Largest commit of one turn, with some room below the limit of a transaction.
pub const TURN_COMMIT_BYTES: usize = 28 * 1024 * 1024;

/// Bytes of the answers, messages and state of one batch of operations; a larger
/// batch runs again with fewer operations.
pub const BATCH_COMMIT_BYTES: usize = 24 * 1024 * 1024;

/// For how long a repeated request of a client is recognised.
pub const REQUEST_AGE: Duration = Duration::from_secs(600);

/// Items of one sort that a worker gets at a time, unless it sets a limit.
pub const WORKER_ITEMS: usize = 256;

/// How long a worker may be silent about a turn.
pub const TURN_LEASE: Duration = Duration::from_secs(120);

/// How long an activity stays assigned to a worker that has disconnected.
pub const ACTIVITY_GRACE: Duration = Duration::from_secs(5);

/// How long the result of a worker waits while the log is full.
pub const RESULT_WAIT: Duration = Duration::from_secs(30);

/// Bytes of results of workers on a node that wait while the log is full; others are refused.
pub const RESULT_WAIT_BYTES: usize = 64 << 20;

/// Lost deliveries after which an item is poison.
pub const LOST_LEASES: u32 = 20;

/// Workers in a row that disconnect on a history that is longer than most accept;
/// then the instance fails.
pub const LOST_LONG_TURNS: u32 = 3;

/// How often a poison item is tried again.
pub const POISON_PAUSE: Duration = Duration::from_secs(30);

/// Instances or entities on a page, unless the client sets a limit.
pub const INSTANCE_PAGE: usize = 100;
/// Largest message that a client may send to a hub of the library, and to an app
/// server: over WebSocket, and over the other transports.
pub const HUB_MESSAGE_BYTES: usize = 32 * 1024;
pub const CLIENT_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
pub const CLIENT_POST_BYTES: usize = 1024 * 1024;

/// Bytes that wait to be sent to one client; then it is closed. Messages from the
/// second size on are counted apart, up to the third: one alone says nothing about how
/// fast its client reads.
pub const CLIENT_OUT_BYTES: usize = 4 * 1024 * 1024;
pub const CLIENT_LARGE_MESSAGE: usize = 1024 * 1024;
pub const CLIENT_LARGE_BYTES: usize = 32 * 1024 * 1024;

/// What one write to a client holds, unless one message has more.
pub const CLIENT_BATCH_BYTES: usize = 64 * 1024;

/// Sent bytes that a client with stateful reconnect has not acknowledged; then nothing
/// more is sent.
pub const STATEFUL_BYTES: usize = 100_000;

/// Calls of one client that wait for their turn, in bytes; then it is not read.
pub const CLIENT_CALL_BYTES: usize = 1024 * 1024;

/// Items of an upload that wait to be read by a hub's method.
pub const UPLOAD_ITEMS: usize = 10;

/// Open streams and calls with uploads of one client.
pub const CLIENT_STREAMS: usize = 100;

/// Open calls of one client that are followed; a client with more may be moved before
/// the others end.
pub const CLIENT_OPEN_CALLS: usize = 16_384;

/// Time-out of a client's protocol handshake.
pub const CLIENT_HANDSHAKE: Duration = Duration::from_secs(15);

/// Idle time after which the server pings a client, and silence after which the client
/// counts as disconnected.
pub const CLIENT_PING: Duration = Duration::from_secs(15);
pub const CLIENT_SILENCE: Duration = Duration::from_secs(30);

/// How long one write to a client may take.
pub const CLIENT_STALL: Duration = Duration::from_secs(10);

/// How long the socket of a client whose message was too long is kept, so that the
/// client reads why.
pub const CLIENT_LINGER: Duration = Duration::from_secs(2);

/// How long the state of a disconnected client is kept for its reconnect.
pub const CLIENT_RESUME: Duration = Duration::from_secs(15);

/// How often received messages are acknowledged to a client with stateful reconnect.
pub const CLIENT_ACK: Duration = Duration::from_secs(1);

/// How long a negotiated connection is kept until a client opens it.
pub const TICKET_TIME: Duration = Duration::from_secs(15);

/// Negotiated connections that are not open yet: of all clients and of one user; and
/// the bytes of their requests. The oldest is then forgotten, first of the same user.
pub const TICKETS: usize = 100_000;
pub const TICKET_BYTES: usize = 16 * 1024 * 1024;
pub const USER_TICKETS: usize = 256;
pub const USER_TICKET_BYTES: usize = 1024 * 1024;

/// How long a poll waits for data, and how long a polling client may be away. A
/// token may set another gap, up to the longest.
pub const POLL_TIME: Duration = Duration::from_secs(90);
pub const POLL_GAP: Duration = Duration::from_secs(15);
pub const LONGEST_POLL_GAP: Duration = Duration::from_secs(300);

/// Longest name of a hub, in bytes.
pub const HUB_NAME: usize = 128;

/// Longest name of a group or a user of hubs, in characters, as the hosted service
/// counts them; and of an app server, in bytes.
pub const GROUP_NAME: usize = 1024;

/// Groups that one client is in, and that one user is in whether connected or not.
pub const CLIENT_GROUPS: usize = 4096;

/// Seconds for which a user may be put into a group by REST: the API has 32 bits.
pub const GROUP_SECONDS: u64 = i32::MAX as u64;

/// Names of users and groups that the groups of users of one hub hold, in bytes.
pub const USER_GROUP_BYTES: usize = 32 * 1024 * 1024;

/// How long a hub waits for the answer of a client.
pub const CLIENT_ANSWER: Duration = Duration::from_secs(600);

/// How long a client waits for an app server when none is connected.
pub const SERVER_WAIT: Duration = Duration::from_secs(5);

/// How often an app server is pinged, and how long it may be silent.
pub const SERVER_PING: Duration = Duration::from_secs(5);
pub const SERVER_SILENCE: Duration = Duration::from_secs(30);

/// Time-out of an app server's handshake.
pub const SERVER_HANDSHAKE: Duration = Duration::from_secs(15);

/// Largest message of an app server.
pub const SERVER_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Unfinished messages of an app server to one client, and to all clients of one link.
pub const SERVER_PARTIAL_BYTES: usize = SERVER_MESSAGE_BYTES;
pub const LINK_PARTIAL_BYTES: usize = 2 * SERVER_MESSAGE_BYTES;

/// Bytes that wait to be sent to an app server: from the first bound on its clients
/// are not read, at the second it is disconnected.
pub const SERVER_ROOM_BYTES: usize = 1024 * 1024;
pub const SERVER_OUT_BYTES: usize = 64 * 1024 * 1024;

/// Clients of one link of an app server, from which on the server is asked for
/// another link.
pub const LINK_CLIENTS: usize = 5000;

/// Links of one app server for one hub that it opens itself.
pub const SERVER_LINKS: usize = 64;

/// Members of a group in one message to an app server.
pub const GROUP_PAGE: usize = 1000;

/// Hubs with metrics of their own; the others are counted together.
pub const COUNTED_HUBS: usize = 100;

/// Largest response of a token authority, and how long its token is kept at most.
pub const TOKEN_BYTES: usize = 256 * 1024;
pub const TOKEN_TIME: Duration = Duration::from_secs(24 * 3600);

/// Calls of upstreams at a time, and how long one may take.
pub const UPSTREAM_CALLS: usize = 256;
pub const UPSTREAM_TIME: Duration = Duration::from_secs(30);

/// Hubs of app servers.
pub const SERVER_HUBS: usize = 1000;

/// Bytes of hub messages that wait for one other node: from the first bound on senders
/// wait, at the second messages are dropped.
pub const NODE_ROOM_BYTES: usize = 8 * 1024 * 1024;
pub const NODE_QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of hub messages in one request to another node, unless one message has more;
/// and the time-out after which the request is retried.
pub const NODE_BATCH_BYTES: usize = 4 * 1024 * 1024;
pub const NODE_BATCH: usize = 1_000;
pub const NODE_TELL: Duration = Duration::from_secs(5);

/// How often a node whose clients wait for an app server asks the others for one.
pub const SERVER_WANT: Duration = Duration::from_secs(1);

/// How long a poll waits that arrived at another node than its client's.
pub const FAR_POLL_TIME: Duration = Duration::from_secs(20);

/// How long a migrating client waits for its open calls, and for the old server's
/// confirmation that it has sent everything.
pub const MOVE_QUIET: Duration = Duration::from_secs(10);
pub const MOVE_PAUSE: Duration = Duration::from_secs(3);

/// The same for SDKs that do not support the confirmation and answer with a ping.
pub const MOVE_ECHO: Duration = Duration::from_secs(1);

/// Former servers of a migrated client from which messages may still arrive.
pub const FORMER_SERVERS: usize = 8;

/// How long a request waits for a partition that has no owner, or changes it.
pub const FORWARD_TIME: Duration = Duration::from_secs(20);

/// Time-out of a request to another node: a command, and everything else.
pub const FORWARD_CALL: Duration = Duration::from_secs(300);
pub const FORWARD_READ: Duration = Duration::from_secs(30);

/// Largest message between nodes: a transaction and its envelope.
pub const NODE_MESSAGE_BYTES: usize = 40 * 1024 * 1024;

/// How long the owner of a stream lets another node wait for its next event.
pub const FOLLOW_TIME: Duration = Duration::from_secs(15);

/// Time-out for handing over a partition that another node requests.
pub const GIVE_TIME: Duration = Duration::from_secs(5);

/// Partitions that a node acquires at a time.
pub const NODE_MOVES: usize = 4;

/// Nodes of a cluster.
pub const NODES: usize = 1_000;

/// Databases that the partitions of one cluster are spread over.
pub const SHARDS: usize = 64;

/// Error codes that other nodes may introduce.
pub const FOREIGN_CODES: usize = 4_096;

/// How long one task may keep a worker thread of the runtime before a warning is logged,
/// how often workers are checked, how often while idle, and how many threads the warning
/// shows.
pub const WORKER_STUCK: Duration = Duration::from_secs(5);
pub const WORKER_LOOK: Duration = Duration::from_secs(2);
pub const WORKER_IDLE_LOOK: Duration = Duration::from_secs(32);
pub const SHOWN_THREADS: usize = 8;

/// Virtual time: the furthest move, the most moments at which one move stops, and the
/// timers of a partition that are listed.
pub const TIME_MOVE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
pub const TIME_MOMENTS: u64 = 100_000;
pub const FIRED_TIMERS: usize = 1_000;

/// Virtual time: the longest real time that one move may take, and the usual limit.
pub const TIME_MOVE_LIMIT: Duration = Duration::from_secs(600);
pub const TIME_MOVE_WAIT: Duration = Duration::from_secs(30);
