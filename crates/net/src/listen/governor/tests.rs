//! The rules of the governor.

use super::*;

fn governor(unproven: usize) -> Arc<Governor> {
    let caps = Caps {
        unproven,
        connection_bytes: 100,
        bytes: 150,
    };
    let proxy: IpAddr = "10.0.0.9".parse().unwrap();
    Arc::new(Governor::new(caps, move |peer| peer == proxy))
}

fn from(governor: &Arc<Governor>, peer: &str) -> Admission {
    governor.admit(peer.parse().unwrap(), 1)
}

#[test]
fn the_oldest_unproven_connection_of_a_full_address_makes_room() {
    // Two of one address.
    let governor = governor(8);
    let other = from(&governor, "10.0.0.1");
    let first = from(&governor, "10.0.0.2");
    let proven = from(&governor, "10.0.0.2");
    proven.mark_proven();
    let second = from(&governor, "10.0.0.2");
    assert_eq!(first.closed_for(), None);
    let _third = from(&governor, "10.0.0.2");
    assert_eq!(first.closed_for(), Some(CloseCause::Displaced));
    for stays in [&other, &proven, &second] {
        assert_eq!(stays.closed_for(), None);
    }
    // A network of IPv6 is one address.
    let one = from(&governor, "2001:db8::1");
    let _two = from(&governor, "2001:db8::2");
    let _three = from(&governor, "2001:db8::3");
    assert_eq!(one.closed_for(), Some(CloseCause::Displaced));
}

#[test]
fn a_proxy_is_bounded_by_the_number_of_all_only() {
    let governor = governor(8);
    let all: Vec<_> = (0..8).map(|_| from(&governor, "10.0.0.9")).collect();
    assert!(all.iter().all(|own| own.closed_for().is_none()));
    let _one_more = from(&governor, "10.0.0.9");
    assert_eq!(all[0].closed_for(), Some(CloseCause::Displaced));
    assert_eq!(governor.unproven(), 8);
}

#[test]
fn the_largest_connection_is_closed_when_all_hold_too_much() {
    let governor = governor(8);
    let (small, large) = (from(&governor, "10.0.0.1"), from(&governor, "10.0.0.2"));
    small.mark_proven();
    large.mark_proven();
    assert!(large.keep(101).is_err());
    assert!(large.keep(90).is_ok());
    assert!(small.keep(70).is_ok());
    assert_eq!(large.closed_for(), Some(CloseCause::Memory));
    assert_eq!(small.closed_for(), None);
}

#[test]
fn a_closed_connection_costs_no_other_one_its_place() {
    let governor = governor(8);
    let peers = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let all = peers.map(|peer| from(&governor, peer));
    all.iter().for_each(Admission::mark_proven);
    let [large, small, idle] = &all;
    large.keep(90).unwrap();
    small.keep(70).unwrap();
    assert_eq!(large.closed_for(), Some(CloseCause::Memory));
    // Its task still runs, and what it reports now does not count.
    large.keep(95).unwrap();
    small.keep(80).unwrap();
    small.keep(100).unwrap();
    assert_eq!((small.closed_for(), idle.closed_for()), (None, None));
    all.iter().for_each(Admission::leave);
    assert_eq!(governor.kept_bytes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_flood_of_many_addresses_makes_room_at_its_own_cost() {
    let governor = governor(8);
    let alone = from(&governor, "10.0.0.1");
    let flood: Vec<_> = (0..12u8)
        .map(|i| from(&governor, &format!("10.0.1.{}", i % 4)))
        .collect();
    assert_eq!(alone.closed_for(), None);
    assert!(flood[0].closed_for().is_some());
}

#[test]
fn bytes_are_counted_until_the_proof() {
    let governor = governor(8);
    let own = from(&governor, "10.0.0.1");
    let own_bytes = limits::CONNECTION_UNPROVEN_BYTES;
    own.charge(limits::UNPROVEN_BYTES - own_bytes - 1).unwrap();
    assert!(!own.is_exhausted());
    assert!(own.charge(2).is_err());
    assert!(own.is_exhausted());
    own.mark_proven();
    assert!(!own.is_exhausted() && own.charge(1 << 30).is_ok());
    assert_eq!(governor.unproven_bytes.load(Ordering::SeqCst), 0);
    assert_eq!(governor.unproven(), 0);
}

#[test]
fn the_largest_unproven_connection_is_closed_when_all_bring_too_much() {
    let most = limits::UNPROVEN_ALL_BYTES / limits::UNPROVEN_BYTES;
    let governor = governor(8 * most);
    let mut all: Vec<_> = (0..most)
        .map(|i| from(&governor, &format!("10.{}.{}.1", i / 256, i % 256)))
        .collect();
    let (large, proven) = (from(&governor, "11.0.0.1"), from(&governor, "11.0.0.2"));
    proven.mark_proven();
    let room = limits::UNPROVEN_BYTES - limits::CONNECTION_UNPROVEN_BYTES;
    large.charge(room).unwrap();
    for own in &all {
        own.charge(room - 1).unwrap();
    }
    assert_eq!(large.closed_for(), Some(CloseCause::Memory));
    all.push(proven);
    assert!(all.iter().all(|own| own.closed_for().is_none()));
    let held = governor.unproven_bytes.load(Ordering::SeqCst);
    assert!(held <= limits::UNPROVEN_ALL_BYTES, "{held}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_proof_ends_in_time() {
    let governor = governor(8);
    let expiring = Arc::clone(&governor);
    let expiring = tokio::spawn(async move { expiring.expire().await });
    let (late, proven) = (from(&governor, "10.0.0.1"), from(&governor, "10.0.0.1"));
    proven.mark_proven();
    late.closed().await;
    assert_eq!(late.closed_for(), Some(CloseCause::Late));
    assert_eq!(proven.closed_for(), None);
    expiring.abort();
}

#[test]
fn waiting_requests_count_until_they_are_answered() {
    let governor = governor(8);
    let own = from(&governor, "10.0.0.1");
    own.meter(false);
    let sum = || governor.unproven_bytes.load(Ordering::SeqCst);
    assert_eq!(sum(), limits::CONNECTION_UNPROVEN_BYTES);
    let sum = || sum() - limits::CONNECTION_UNPROVEN_BYTES;
    // An incomplete head; more than one is the rest of a rejected body.
    own.charge(1000).unwrap();
    assert_eq!(sum(), 2000);
    own.charge(10 * limits::HTTP_HEAD_BYTES).unwrap();
    assert_eq!(sum(), 2 * limits::HTTP_HEAD_BYTES);
    let first = own.wait(100);
    assert_eq!(sum(), limits::REQUEST_UNPROVEN_BYTES + 100);
    // The body of a pending request.
    own.charge(1000).unwrap();
    assert_eq!(sum(), limits::REQUEST_UNPROVEN_BYTES + 1100);
    // An unread response does not stop reads from the client.
    own.hold(limits::UNPROVEN_BYTES).unwrap_err();
    assert!(!own.is_exhausted());
    own.release(limits::UNPROVEN_BYTES);
    let many = limits::UNPROVEN_BYTES / limits::REQUEST_UNPROVEN_BYTES;
    let others: Vec<_> = (1..many).map(|_| own.wait(0)).collect();
    assert!(own.is_exhausted());
    drop(first);
    assert!(!own.is_exhausted());
    drop(others);
    assert_eq!(sum(), 0);
    let late = own.wait(100);
    own.mark_proven();
    drop(late);
    assert_eq!(governor.unproven_bytes.load(Ordering::SeqCst), 0);
    assert_eq!(own.bytes(ConnectionClass::Unproven), 0);
}

#[tokio::test]
async fn connections_that_are_closed_leave_before_many_more_come() {
    let governor = governor(4);
    let come = || {
        let own = from(&governor, "10.0.0.1");
        (own.task(), own)
    };
    let mut all: Vec<_> = (0..=limits::LEAVING_CONNECTIONS).map(|_| come()).collect();
    let mut emptied = std::pin::pin!(governor.wait_for_capacity());
    assert!(futures_util::poll!(emptied.as_mut()).is_pending());
    let (task, first) = all.remove(0);
    assert_eq!(first.closed_for(), Some(CloseCause::Displaced));
    drop(task);
    assert!(futures_util::poll!(emptied.as_mut()).is_ready());
    // A connection that was not closed does not count.
    drop(all.pop());
    governor.wait_for_capacity().await;
}

#[test]
fn a_connection_that_cancels_its_requests_is_closed() {
    let governor = governor(8);
    let (own, other) = (from(&governor, "10.0.0.1"), from(&governor, "10.0.0.2"));
    for admission in [&own, &other] {
        admission.meter(false);
    }
    for _ in 0..limits::HTTP_UNPROVEN_CANCELLED {
        drop(own.wait(0));
        other.wait(0).answered();
    }
    assert_eq!(own.closed_for(), None);
    drop(own.wait(0));
    other.wait(0).answered();
    assert_eq!(own.closed_for(), Some(CloseCause::Cancelled));
    assert_eq!(other.closed_for(), None);
}

/// A WebSocket goes on in a task of its own.
#[tokio::test]
async fn a_connection_that_goes_on_in_another_task_leaves_with_that() {
    let governor = governor(4);
    for _ in 0..2 * limits::LEAVING_CONNECTIONS {
        let own = from(&governor, "10.0.0.1");
        let (first, second) = (own.task(), own.task());
        drop(first);
        let next = from(&governor, "10.0.0.1");
        assert_eq!(own.closed_for(), Some(CloseCause::Displaced));
        drop(second);
        next.leave();
        governor.wait_for_capacity().await;
    }
}

#[test]
fn a_newcomer_is_not_closed_for_a_few_bytes_more() {
    let each = limits::UNPROVEN_BYTES / 2;
    let most = limits::UNPROVEN_ALL_BYTES / each;
    let governor = governor(8 * most);
    let all: Vec<_> = (0..most)
        .map(|i| from(&governor, &format!("10.{}.{}.1", i / 256, i % 256)))
        .collect();
    for own in &all {
        own.charge(each - limits::CONNECTION_UNPROVEN_BYTES)
            .unwrap();
    }
    let newcomer = from(&governor, "11.0.0.1");
    newcomer.charge(each).unwrap();
    assert_eq!(newcomer.closed_for(), None);
    assert_eq!(all[0].closed_for(), Some(CloseCause::Memory));
}
