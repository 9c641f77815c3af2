//! The last lines of the log, as the layer of a subscriber.

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::clock::SystemClock;
use steadfast_core::limits;
use steadfast_net::log_ring::{LogPage, LogRing};
use tracing::Level;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

fn logged(work: impl FnOnce()) -> Arc<LogRing> {
    let ring = LogRing::new(Arc::new(SystemClock::new()));
    let subscriber = Registry::default().with(ring.layer());
    tracing::subscriber::with_default(subscriber, work);
    ring
}

fn numbers(page: &LogPage) -> Vec<u64> {
    page.lines.iter().map(|line| line.number).collect()
}

#[test]
fn a_line_has_its_event_its_message_and_its_fields() {
    let ring = logged(|| {
        let node = "a";
        tracing::warn!(
            event = "node.late",
            node,
            count = 3,
            is_up = false,
            "it is late"
        );
        tracing::info!(error = %"broken", list = ?["x"]);
    });
    let page = ring.page(None, 10, Level::TRACE);
    let line = &page.lines[0];
    assert_eq!((line.number, line.level), (1, Level::WARN));
    assert_eq!(line.event.as_deref(), Some("node.late"));
    assert_eq!(line.message.as_deref(), Some("it is late"));
    let fields = serde_json::json!({"node": "a", "count": 3, "is_up": false});
    assert_eq!(Value::Object(line.fields.clone()), fields);
    assert!(!line.is_cut && line.target == module_path!());
    let line = &page.lines[1];
    assert_eq!((&line.event, &line.message), (&None, &None));
    let fields = serde_json::json!({"error": "broken", "list": "[\"x\"]"});
    assert_eq!(Value::Object(line.fields.clone()), fields);
    assert_eq!((page.next, page.dropped), (2, 0));
}

#[test]
fn a_page_goes_on_where_the_last_one_ended() {
    let ring = logged(|| {
        for number in 1..=9 {
            match number % 3 {
                0 => tracing::error!(number),
                _ => tracing::info!(number),
            }
        }
    });
    let last = ring.page(None, 2, Level::INFO);
    assert_eq!((numbers(&last), last.next), (vec![8, 9], 9));
    let first = ring.page(Some(0), 4, Level::INFO);
    assert_eq!((numbers(&first), first.next), (vec![1, 2, 3, 4], 4));
    let second = ring.page(Some(4), 9, Level::INFO);
    assert_eq!((numbers(&second), second.next), (vec![5, 6, 7, 8, 9], 9));
    let severe = ring.page(Some(0), 2, Level::WARN);
    assert_eq!((numbers(&severe), severe.next), (vec![3, 6], 6));
    let end = ring.page(Some(6), 2, Level::WARN);
    assert_eq!((numbers(&end), end.next), (vec![9], 9));
    assert!(ring.page(Some(9), 2, Level::WARN).lines.is_empty());
    // As of another process.
    let other = ring.page(Some(10), 1, Level::INFO);
    assert_eq!((numbers(&other), other.dropped), (vec![1], 0));
}

#[test]
fn the_oldest_lines_are_dropped_and_counted() {
    let ring = logged(|| {
        for _ in 0..3000 {
            tracing::info!(text = "x".repeat(1000));
        }
    });
    let dropped = ring.page(None, 1, Level::INFO).dropped;
    let kept = 3000 - dropped;
    let most = (limits::LOG_RING_BYTES / 1000) as u64;
    assert!((most / 2..=most).contains(&kept), "{kept}");
    let page = ring.page(Some(10), 1, Level::INFO);
    assert_eq!(page.dropped, 3000 - kept - 10);
    assert_eq!(numbers(&page), [3000 - kept + 1]);
    assert_eq!(*ring.follow().borrow(), 3000);
}

#[test]
fn a_long_line_is_cut_and_says_so() {
    let long = "é".repeat(limits::LOG_RING_BYTES);
    let ring = logged(|| tracing::info!(event = "long", long, after = "more", "told"));
    let line = &ring.page(None, 1, Level::INFO).lines[0];
    assert!(line.is_cut);
    let bytes = line.fields["long"].as_str().map_or(0, str::len);
    assert!(bytes > 1000 && bytes <= limits::LOG_LINE_BYTES, "{bytes}");
    assert_eq!(line.event.as_deref(), Some("long"));
}
