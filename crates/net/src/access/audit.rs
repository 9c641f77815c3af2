//! A record of key changes, refusals and revocations.
//!
//! Every event is a line of the log and an entry of a bounded list in memory. Repeated
//! refusals of one client with one code count as one event for a while, so they flood
//! neither. Key changes have a list of their own: refusals do not displace them. Events
//! hold no secret; texts of clients are cut and escaped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::limits;

use super::error::{AccessError, AccessErrorKind};
use super::key::{Key, KeyRing};

/// Interval of the search for windows that are over.
const SWEEP: Duration = Duration::from_secs(1);

tokio::task_local! {
    static ASKER: AuditClient;
}

/// The address and the key of a request's client.
#[derive(Clone, Debug, Default)]
pub struct AuditClient {
    pub address: Option<IpAddr>,
    pub key: Option<String>,
}

impl AuditClient {
    /// A client at an address.
    pub fn at(address: IpAddr) -> Self {
        Self {
            address: Some(address),
            key: None,
        }
    }

    /// The client that the current task serves.
    pub fn current() -> Self {
        ASKER.try_with(Self::clone).unwrap_or_default()
    }

    /// The same client, authenticated by this key.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Runs `work` for this client.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        ASKER.scope(self, work).await
    }

    /// Runs `work` for this client on another thread.
    pub fn sync_scope<T>(self, work: impl FnOnce() -> T) -> T {
        ASKER.sync_scope(self, work)
    }
}

/// A change, a refusal or a revocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEvent {
    /// Later events have higher numbers.
    pub number: u64,
    #[serde(skip)]
    pub time: Timestamp,
    /// When it last repeated.
    #[serde(skip)]
    pub last: Timestamp,
    /// The name of the log event.
    pub event: &'static str,
    /// How often it happened.
    pub count: u64,
    /// The key concerned.
    pub key: Option<String>,
    /// The key of the client that did it.
    pub by: Option<String>,
    /// The address of the client.
    pub client: Option<String>,
    pub code: Option<&'static str>,
    pub detail: String,
}

impl AuditEvent {
    fn bytes(&self) -> usize {
        let texts = [&self.key, &self.by, &self.client];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + texts + self.detail.len()
    }
}

/// The record of changes, refusals and revocations.
pub struct Audit {
    clock: Arc<dyn Clock>,
    book: Mutex<AuditState>,
}

#[derive(Default)]
struct AuditState {
    numbers: u64,
    changes: AuditEventList,
    refusals: AuditEventList,
    /// By subject and code: the event that counts repetitions.
    windows: HashMap<(String, &'static str), RefusalWindow>,
    /// When windows that are over were last dropped.
    swept: Timestamp,
}

struct RefusalWindow {
    number: u64,
    since: Timestamp,
}

/// The newest events, the oldest first.
#[derive(Default)]
struct AuditEventList {
    events: VecDeque<AuditEvent>,
    bytes: usize,
}

impl AuditEventList {
    fn push(&mut self, event: AuditEvent) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > limits::AUDIT_EVENTS || self.bytes > limits::AUDIT_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut AuditEvent> {
        let found = self.events.binary_search_by_key(&number, |own| own.number);
        self.events.get_mut(found.ok()?)
    }

    /// Events before a number, the newest first.
    fn before(&self, end: u64) -> impl Iterator<Item = &AuditEvent> {
        let older = self.events.iter().rev();
        older.skip_while(move |event| event.number >= end)
    }
}

impl Audit {
    /// An empty record.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            book: Mutex::default(),
        }
    }

    /// Up to `limit` events before a number, the newest first, and the cursor of the next
    /// page, if there is one.
    pub fn page(&self, before: Option<u64>, limit: usize) -> (Vec<AuditEvent>, Option<u64>) {
        let end = before.unwrap_or(u64::MAX);
        let book = self.book.lock();
        let mut all: BTreeMap<u64, &AuditEvent> = BTreeMap::new();
        for list in [&book.changes, &book.refusals] {
            let some = list.before(end).take(limit + 1);
            all.extend(some.map(|event| (event.number, event)));
        }
        let page: Vec<_> = all
            .values()
            .rev()
            .take(limit)
            .map(|own| (*own).clone())
            .collect();
        let has_more = all.len() > limit;
        let next = page.last().filter(|_| has_more).map(|last| last.number);
        (page, next)
    }

    /// Records that the client of the current task was denied access.
    pub fn refused(&self, denied: &AccessError) {
        let asker = AuditClient::current();
        let event = match denied.reason {
            AccessErrorKind::Forbidden => "audit.right_refused",
            _ => "audit.proof_refused",
        };
        let draft = self.draft(event, None, &asker, denied.message(), limits::AUDIT_TEXT);
        let draft = AuditEvent {
            code: Some(denied.code().0),
            ..draft
        };
        let subject = draft.client.clone().unwrap_or_default();
        let Some(event) = self.count(subject, draft) else {
            return;
        };
        let AuditEvent {
            client, by, code, ..
        } = &event;
        let why = &event.detail;
        match denied.reason {
            AccessErrorKind::Forbidden => {
                tracing::warn!(event = "audit.right_refused", client, by, code, why);
            }
            _ => tracing::warn!(event = "audit.proof_refused", client, by, code, why),
        }
    }

    /// Records that a connection ended because its proof was revoked.
    pub fn revoked(&self, kind: &'static str, key: &str, denied: &AccessError) {
        let why = format!("{kind}: {}", denied.message());
        let asker = AuditClient::default();
        let name = "audit.connection_revoked";
        let draft = self.draft(name, Some(key), &asker, &why, limits::AUDIT_TEXT);
        let subject = format!("{kind}/{}", draft.key.as_deref().unwrap_or_default());
        let Some(AuditEvent { key, detail, .. }) = self.count(subject, draft) else {
            return;
        };
        tracing::warn!(event = "audit.connection_revoked", key, why = detail);
    }

    /// Records that the keys were reloaded.
    pub fn reloaded(&self, ring: &KeyRing) {
        let detail = format!("{} keys count", ring.keys().count());
        let event = self.change("audit.keys_reloaded", None, &detail);
        tracing::info!(event = "audit.keys_reloaded", by = event.by, what = detail);
    }

    /// Records the differences to a new key ring.
    pub(super) fn replaced(&self, former: &KeyRing, fresh: &KeyRing) {
        for key in former.keys().filter(|key| fresh.get(&key.name).is_none()) {
            let AuditEvent { key, by, .. } = self.change("audit.key_deleted", Some(key), "");
            tracing::info!(event = "audit.key_deleted", key, by);
        }
        for key in fresh.keys() {
            match former.get(&key.name) {
                None => self.created(key),
                Some(before) => self.compared(before, key),
            }
        }
    }

    fn created(&self, key: &Key) {
        let event = self.change("audit.key_created", Some(key), &rights(key));
        let AuditEvent {
            key, by, detail, ..
        } = event;
        tracing::info!(event = "audit.key_created", key, by, rights = detail);
    }

    fn compared(&self, before: &Key, key: &Key) {
        if before.grants != key.grants {
            let event = self.change("audit.key_changed", Some(key), &rights(key));
            let AuditEvent {
                key, by, detail, ..
            } = event;
            tracing::info!(event = "audit.key_changed", key, by, rights = detail);
        }
        let has = |own: &Key, secret: &str| own.secrets().any(|other| other == secret);
        let is_same = before.secrets().all(|secret| has(key, secret))
            && key.secrets().all(|secret| has(before, secret));
        if !is_same {
            let event = self.change("audit.key_rotated", Some(key), "");
            let AuditEvent { key, by, .. } = event;
            tracing::info!(event = "audit.key_rotated", key, by);
        }
    }

    /// Records a change by the client that the current task serves.
    fn change(&self, event: &'static str, key: Option<&Key>, detail: &str) -> AuditEvent {
        let asker = AuditClient::current();
        let key = key.map(|key| key.name.as_str());
        let mut draft = self.draft(event, key, &asker, detail, limits::AUDIT_RIGHTS);
        let mut book = self.book.lock();
        draft.number = book.number();
        book.changes.push(draft.clone());
        draft
    }

    fn draft(
        &self,
        event: &'static str,
        key: Option<&str>,
        asker: &AuditClient,
        detail: &str,
        most: usize,
    ) -> AuditEvent {
        let now = self.clock.now();
        AuditEvent {
            number: 0,
            time: now,
            last: now,
            event,
            count: 1,
            key: key.map(|key| plain(key, limits::AUDIT_TEXT)),
            by: asker
                .key
                .as_deref()
                .map(|key| plain(key, limits::AUDIT_TEXT)),
            client: asker.address.map(|address| address.to_string()),
            code: None,
            detail: plain(detail, most),
        }
    }

    /// Records an event that may repeat. `None` for a repetition, which only raises a count.
    fn count(&self, subject: String, mut draft: AuditEvent) -> Option<AuditEvent> {
        let now = draft.time;
        let mut book = self.book.lock();
        let mut name = (subject, draft.code.unwrap_or(draft.event));
        if !book.windows.contains_key(&name) && !book.has_room(now) {
            // Too many clients to count each separately: they share one event.
            name.0.clear();
            draft.client = None;
        }
        let open = book.windows.get(&name).filter(|own| own.is_open(now));
        if let Some(number) = open.map(|window| window.number) {
            if let Some(event) = book.refusals.find(number) {
                event.count += 1;
                event.last = now;
            }
            return None;
        }
        draft.number = book.number();
        let window = RefusalWindow {
            number: draft.number,
            since: now,
        };
        book.windows.insert(name, window);
        book.refusals.push(draft.clone());
        Some(draft)
    }
}

impl RefusalWindow {
    fn is_open(&self, now: Timestamp) -> bool {
        self.since.plus(limits::AUDIT_WINDOW) > now
    }
}

impl AuditState {
    /// Whether a further client can be counted separately. Windows that are over are removed
    /// at most once a second, because a flood of clients calls this each time.
    fn has_room(&mut self, now: Timestamp) -> bool {
        let is_full = self.windows.len() >= limits::AUDIT_WINDOWS;
        if is_full && now >= self.swept.plus(SWEEP) {
            self.swept = now;
            self.windows.retain(|_, window| window.is_open(now));
        }
        self.windows.len() < limits::AUDIT_WINDOWS
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

fn rights(key: &Key) -> String {
    let rights = key.grants.iter().map(ToString::to_string);
    rights.collect::<Vec<_>>().join(", ")
}

/// A text of bounded length without control characters that would distort a log.
fn plain(text: &str, most: usize) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        let is_plain = !letter.is_control() && !is_invisible(letter);
        let before = out.len();
        if is_plain {
            out.push(letter)
        } else {
            out.extend(letter.escape_unicode())
        }
        if out.len() > most {
            out.truncate(before);
            out.push_str("..");
            break;
        }
    }
    out
}

/// Characters that are invisible or change the direction of a text.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use steadfast_core::clock::VirtualClock;

    use super::super::secret::Secret;
    use super::*;

    fn audit() -> (Audit, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp(1_000_000)));
        (Audit::new(Arc::clone(&clock) as Arc<dyn Clock>), clock)
    }

    fn refuse(audit: &Audit, address: u32, reason: AccessErrorKind, why: &str) {
        let asker = AuditClient::at(IpAddr::V4(Ipv4Addr::from(address)));
        asker.sync_scope(|| audit.refused(&AccessError::new(reason, why)));
    }

    fn key(name: &str, grant: &str, secret: &str) -> Key {
        Key {
            name: name.to_owned(),
            grants: vec![grant.parse().unwrap()],
            primary: Secret::new(secret),
            secondary: None,
        }
    }

    fn ring(keys: &[Key]) -> KeyRing {
        let mut ring = KeyRing::new();
        for key in keys {
            ring.add(key.clone());
        }
        ring
    }

    #[test]
    fn repeated_refusals_of_a_client_are_one_event_for_a_while() {
        let (audit, clock) = audit();
        for _ in 0..1000 {
            refuse(&audit, 1, AccessErrorKind::Wrong, "wrong");
        }
        refuse(&audit, 1, AccessErrorKind::Forbidden, "no right");
        refuse(&audit, 2, AccessErrorKind::Wrong, "wrong");
        let (events, next) = audit.page(None, 10);
        assert_eq!((events.len(), next), (3, None));
        assert_eq!(events[2].count, 1000);
        assert_eq!(events[2].client.as_deref(), Some("0.0.0.1"));
        assert_eq!(events[1].event, "audit.right_refused");
        clock.advance(limits::AUDIT_WINDOW + Duration::from_secs(1));
        refuse(&audit, 1, AccessErrorKind::Wrong, "wrong");
        assert_eq!(audit.page(None, 10).0.len(), 4);
    }

    #[test]
    fn a_flood_of_clients_displaces_no_change_and_keeps_its_bounds() {
        let (audit, _) = audit();
        audit.replaced(&KeyRing::new(), &ring(&[key("a", "send events", "hush")]));
        let long = "x".repeat(9999);
        for address in 0..5000 {
            refuse(&audit, address, AccessErrorKind::Wrong, &long);
        }
        let book = audit.book.lock();
        assert!(book.windows.len() <= limits::AUDIT_WINDOWS + 2);
        assert!(book.refusals.events.len() <= limits::AUDIT_EVENTS);
        assert!(book.refusals.bytes <= limits::AUDIT_BYTES);
        let bytes: usize = book.refusals.events.iter().map(AuditEvent::bytes).sum();
        assert_eq!(book.refusals.bytes, bytes);
        drop(book);
        let (events, _) = audit.page(None, 9999);
        let last = events.last().unwrap();
        assert_eq!((last.event, last.number), ("audit.key_created", 1));
    }

    #[test]
    fn changes_of_long_lists_of_rights_keep_the_bounds_too() {
        let (audit, _) = audit();
        let grant = format!("send events/{}", "x".repeat(99));
        let mut wide = key("wide", &grant, "hush");
        wide.grants = vec![wide.grants[0].clone(); limits::RIGHTS];
        let (none, wide) = (KeyRing::new(), ring(&[wide]));
        for _ in 0..limits::AUDIT_EVENTS / 2 {
            audit.replaced(&none, &wide);
            audit.replaced(&wide, &none);
        }
        let changes = &audit.book.lock().changes;
        assert!(changes.events.len() > limits::AUDIT_EVENTS / 10);
        assert!(changes.bytes <= limits::AUDIT_BYTES, "{}", changes.bytes);
        let bytes: usize = changes.events.iter().map(AuditEvent::bytes).sum();
        assert_eq!(changes.bytes, bytes);
    }

    #[test]
    fn changes_of_a_ring_are_told_by_name_and_right() {
        let (audit, _) = audit();
        let before = ring(&[
            key("gone", "manage *", "secret-1"),
            key("kept", "send events", "secret-2"),
            key("turned", "send events", "secret-3"),
            key("shrunk", "manage *", "secret-4"),
        ]);
        let after = ring(&[
            key("kept", "send events", "secret-2"),
            key("new", "listen jobs/x", "secret-5"),
            key("turned", "send events", "secret-6"),
            key("shrunk", "send events", "secret-4"),
        ]);
        let asker = AuditClient::default().with_key("root");
        asker.sync_scope(|| audit.replaced(&before, &after));
        let (events, _) = audit.page(None, 10);
        let told = events.iter().map(|event| {
            let key = event.key.as_deref().unwrap_or_default();
            (event.event, key, event.detail.as_str())
        });
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        assert_eq!(
            told,
            [
                ("audit.key_changed", "shrunk", "send events"),
                ("audit.key_created", "new", "listen jobs/x"),
                ("audit.key_deleted", "gone", ""),
                ("audit.key_rotated", "turned", ""),
            ]
        );
        assert!(
            events
                .iter()
                .all(|event| event.by.as_deref() == Some("root"))
        );
        assert!(!format!("{events:?}").contains("secret-"));
    }

    #[test]
    fn pages_follow_one_another() {
        let (audit, _) = audit();
        for address in 0..7 {
            refuse(&audit, address, AccessErrorKind::Missing, "none");
        }
        audit.replaced(&KeyRing::new(), &ring(&[key("a", "send events", "hush")]));
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let (events, next) = audit.page(before, 3);
            seen.extend(events.iter().map(|event| event.number));
            before = next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn texts_of_clients_are_cut_and_escaped() {
        let (audit, _) = audit();
        refuse(&audit, 1, AccessErrorKind::Wrong, "a\n{\"event\"\u{202e}x");
        refuse(&audit, 2, AccessErrorKind::Wrong, &"ä".repeat(999));
        let (events, _) = audit.page(None, 2);
        assert_eq!(events[1].detail, "a\\u{a}{\"event\"\\u{202e}x");
        assert!(events[0].detail.len() <= limits::AUDIT_TEXT + 2);
    }
}
