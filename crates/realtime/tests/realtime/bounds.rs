//! What clients and users make a hub keep.

use steadfast_core::limits;
use steadfast_realtime::{ClientIdentity, ClientOptions, ClientTransport, Realtime};

fn caller(user: Option<&str>, bytes: usize) -> ClientIdentity {
    ClientIdentity {
        user: user.map(str::to_owned),
        headers: vec![("x-filler".to_owned(), "x".repeat(bytes))],
        ..ClientIdentity::default()
    }
}

#[tokio::test]
async fn one_user_holds_few_negotiated_connections() {
    let realtime = Realtime::new("here");
    let negotiate = |user, bytes| {
        let ticket =
            realtime.negotiate("chat", caller(user, bytes), ClientOptions::default(), true);
        ticket.unwrap().token.clone()
    };
    let is_known = |token: &String| realtime.ticket(token).is_some();
    let other = negotiate(Some("bob"), 10);
    let opened = negotiate(Some("alice"), 10);
    let ticket = realtime.ticket(&opened).unwrap();
    assert!(ticket.open(ClientTransport::LongPolling, 1024).is_ok());
    let many: Vec<_> = (0..limits::USER_TICKETS + 10)
        .map(|_| negotiate(Some("alice"), 10))
        .collect();
    // The oldest are forgotten; neither the one that is in use nor another user's.
    let known = many.iter().filter(|token| is_known(token)).count();
    assert_eq!(known, limits::USER_TICKETS);
    assert!(!is_known(&many[0]) && is_known(&opened) && is_known(&other));
    // Long requests count by their length.
    let long: Vec<_> = (0..4_000)
        .map(|_| negotiate(Some("alice"), 50_000))
        .collect();
    let known = long.iter().filter(|token| is_known(token)).count();
    assert!(
        known * 50_000 <= limits::USER_TICKET_BYTES && known > 10,
        "{known}"
    );
    // Without a name: what all may have together, and the others keep theirs.
    let strangers: Vec<_> = (0..1_000).map(|_| negotiate(None, 50_000)).collect();
    let known = strangers.iter().filter(|token| is_known(token)).count();
    assert!(
        known * 50_000 <= limits::TICKET_BYTES && known > 100,
        "{known}"
    );
    assert!(is_known(&other) && is_known(long.last().unwrap()));
    drop(ticket);
}

#[tokio::test]
async fn groups_of_users_are_bounded_by_their_names() {
    let realtime = Realtime::new("here");
    let hub = realtime.hub("chat").unwrap();
    let user = |number: usize| format!("{number:01000}");
    let group = "g".repeat(1000);
    let most = limits::USER_GROUP_BYTES / 2000 + 1;
    let count = (0..most)
        .take_while(|number| hub.join_user(&user(*number), &group, None).is_ok())
        .count();
    assert!(count < most && count > most * 9 / 10, "{count}");
    assert!(hub.join_user("late", &group, None).is_err());
    // Again the same, and one more when one has gone.
    hub.join_user(&user(0), &group, None).unwrap();
    hub.leave_user(&user(0), Some(&group));
    hub.join_user("late", &group, None).unwrap();
    hub.leave_user("late", None);
    hub.join_user(&user(0), &group, None).unwrap();
}
