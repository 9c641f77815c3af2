//! Batches messages to one node into few calls.
//!
//! Every volatile partition sends messages of its own to the nodes that hold it, and
//! most are small. Messages that wait while calls to the same node are in progress go
//! together. Long messages, and those with long answers, go alone, so that no others
//! wait behind them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::Owner;
use steadfast_core::task::name_task;
use tokio::sync::oneshot;

/// The number of concurrent calls to one node.
const CALLS: usize = 2;
/// The limits of one call: messages and bytes.
const LETTERS: usize = 1024;
const CALL_BYTES: usize = 1024 * 1024;
/// The longest message that goes with others.
const LETTER_BYTES: usize = 64 * 1024;
/// How many bytes a slow connection carries in a millisecond.
const BYTES_PER_MS: usize = 1000;

/// Queued messages, by destination node.
#[derive(Default)]
pub(super) struct CallBatcher {
    to: Mutex<HashMap<Owner, PeerQueue>>,
}

#[derive(Default)]
struct PeerQueue {
    waiting: VecDeque<QueuedPeerMessage>,
    calls: usize,
}

struct QueuedPeerMessage {
    letter: Bytes,
    limit: Duration,
    answer: oneshot::Sender<Bytes>,
}

impl CallBatcher {
    /// Sends a message with `carry`, together with others, and returns its answer, if
    /// there is one in time.
    pub(super) async fn send<F>(
        self: &Arc<Self>,
        to: Owner,
        letter: Bytes,
        limit: Duration,
        is_bulk: bool,
        carry: impl Fn(Bytes, Duration) -> F + Send + 'static,
    ) -> Option<Bytes>
    where
        F: Future<Output = Option<Bytes>> + Send,
    {
        if is_bulk || letter.len() > LETTER_BYTES {
            let answers = carry(join([&letter].into_iter()), limit).await?;
            return answers_in(answers).ok()?.pop()?;
        }
        let (answer, answered) = oneshot::channel();
        let waiting = QueuedPeerMessage {
            letter,
            limit,
            answer,
        };
        if self.add(to, waiting) {
            let own = Arc::clone(self);
            tokio::spawn(name_task(async move {
                while let Some(bundle) = own.next(to) {
                    let limit = bundle.iter().map(|waiting| waiting.limit).max();
                    let letters = join(bundle.iter().map(|waiting| &waiting.letter));
                    let time = Duration::from_millis((letters.len() / BYTES_PER_MS) as u64);
                    let answers = carry(letters, limit.unwrap_or_default() + time).await;
                    let answers = answers.and_then(|answers| answers_in(answers).ok());
                    for (waiting, answer) in bundle.into_iter().zip(answers.unwrap_or_default()) {
                        if let Some(answer) = answer {
                            // The sender may have stopped waiting.
                            let _ = waiting.answer.send(answer);
                        }
                    }
                }
            }));
        }
        tokio::time::timeout(limit, answered).await.ok()?.ok()
    }

    /// Queues a message; answers whether the caller must start a call.
    fn add(&self, to: Owner, waiting: QueuedPeerMessage) -> bool {
        let mut piles = self.to.lock();
        let pile = piles.entry(to).or_default();
        pile.waiting.push_back(waiting);
        let is_wanted = pile.calls < CALLS;
        pile.calls += usize::from(is_wanted);
        is_wanted
    }

    /// The messages of the next call; `None` if none waits, and then the call ends.
    fn next(&self, to: Owner) -> Option<Vec<QueuedPeerMessage>> {
        let mut piles = self.to.lock();
        let pile = piles.get_mut(&to)?;
        let (mut bundle, mut bytes) = (Vec::new(), 0);
        while let Some(first) = pile.waiting.front() {
            bytes += first.letter.len();
            let is_full = bytes > CALL_BYTES || bundle.len() == LETTERS;
            if is_full && !bundle.is_empty() {
                break;
            }
            // Some senders have stopped waiting.
            bundle.extend(pile.waiting.pop_front().filter(|w| !w.answer.is_closed()));
        }
        if !bundle.is_empty() {
            return Some(bundle);
        }
        pile.calls -= 1;
        if pile.calls == 0 {
            piles.remove(&to);
        }
        None
    }
}

fn join<'a>(letters: impl ExactSizeIterator<Item = &'a Bytes>) -> Bytes {
    let mut out = Vec::new();
    put_varint(&mut out, letters.len() as u64);
    for letter in letters {
        put_bytes(&mut out, letter);
    }
    out.into()
}

fn answers_in(bytes: Bytes) -> Result<Vec<Option<Bytes>>, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let count = count(&mut reader)?;
    let answers = (0..count).map(|_| match reader.byte()? {
        0 => Ok(None),
        _ => reader.bytes().map(Some),
    });
    answers.collect()
}

fn count(reader: &mut ByteReader) -> Result<u64, DecodeError> {
    let count = reader.varint()?;
    if count > LETTERS as u64 {
        return Err(DecodeError);
    }
    Ok(count)
}

/// Decodes the messages of a call, has each answered, and joins the answers.
pub(super) fn each(
    letters: Bytes,
    answer: impl Fn(Bytes) -> Option<Bytes>,
) -> Result<Bytes, DecodeError> {
    let mut reader = ByteReader::new(letters);
    let count = count(&mut reader)?;
    let letters = (0..count).map(|_| reader.bytes());
    let letters: Vec<Bytes> = letters.collect::<Result<_, _>>()?;
    let mut out = Vec::new();
    put_varint(&mut out, count);
    for letter in letters {
        match answer(letter) {
            Some(answer) => {
                out.push(1);
                put_bytes(&mut out, &answer);
            }
            None => out.push(0),
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    const NODE: Owner = Owner {
        node: 2,
        incarnation: 7,
    };
    const LIMIT: Duration = Duration::from_secs(60);

    /// Answers a message with itself, unless it is empty.
    fn echo(letter: Bytes) -> Option<Bytes> {
        (!letter.is_empty()).then_some(letter)
    }

    #[tokio::test]
    async fn what_waits_goes_together_and_each_letter_gets_its_answer() {
        let bundles = Arc::new(CallBatcher::default());
        let (gate, calls) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(0)));
        let empty = Bytes::new();
        let texts: Vec<_> = (0..100)
            .map(|number| Bytes::from(number.to_string()))
            .collect();
        let sent = texts.iter().chain([&empty]).map(|letter| {
            let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
            bundles.send(NODE, letter.clone(), LIMIT, false, move |letters, _| {
                let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
                async move {
                    drop(gate.acquire().await);
                    *calls.lock() += 1;
                    each(letters, echo).ok()
                }
            })
        });
        let open = async {
            tokio::task::yield_now().await;
            gate.add_permits(Semaphore::MAX_PERMITS);
        };
        let (answers, ()) = tokio::join!(join_all(sent), open);
        assert_eq!(answers[100], None, "it was not answered");
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(answers, texts);
        assert!(*calls.lock() <= 2 * CALLS, "{} calls", calls.lock());
        assert!(bundles.to.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_answer_holds_nobody_longer_than_allowed() {
        let bundles = Arc::new(CallBatcher::default());
        let silent = |_, limit| async move {
            tokio::time::sleep(limit).await;
            None
        };
        let sent =
            (0..10).map(|_| bundles.send(NODE, Bytes::from_static(b"x"), LIMIT, false, silent));
        let began = tokio::time::Instant::now();
        assert_eq!(join_all(sent).await, vec![None; 10]);
        assert!(began.elapsed() <= LIMIT + Duration::from_millis(10));
    }

    #[tokio::test]
    async fn nobody_waits_behind_a_long_letter() {
        let bundles = Arc::new(CallBatcher::default());
        let long = Bytes::from(vec![b'x'; LETTER_BYTES + 1]);
        let short = Bytes::from_static(b"page, please");
        let never = |_, _| std::future::pending();
        let long = (0..10).map(|_| bundles.send(NODE, long.clone(), LIMIT, false, never));
        let pages = (0..10).map(|_| bundles.send(NODE, short.clone(), LIMIT, true, never));
        let own = bundles.send(NODE, short.clone(), LIMIT, false, |letters, _| async {
            each(letters, echo).ok()
        });
        tokio::select! {
            biased;
            _ = join_all(long) => panic!("these messages get no answer"),
            _ = join_all(pages) => panic!("these messages get no answer"),
            answer = own => assert_eq!(answer, Some(short.clone())),
        }
        let alone = bundles.send(NODE, short.clone(), LIMIT, true, |letters, _| async {
            each(letters, echo).ok()
        });
        assert_eq!(alone.await, Some(short.clone()));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused() {
        let letters = join([Bytes::from_static(b"one"), Bytes::from_static(b"two")].iter());
        for end in 0..letters.len() {
            assert!(each(letters.slice(..end), echo).is_err(), "{end}");
        }
        let mut many = Vec::new();
        put_varint(&mut many, LETTERS as u64 + 1);
        assert!(each(many.into(), echo).is_err());
    }
}
