//! Memory of a server while events are read.
//!
//! In the process of `amqp_memory` no other test takes any.

use steadfast_client::amqp::ReaderLinkOptions;
use steadfast_events::EventHubDefinition;
use steadfast_wire::amqp::delivery::FORMAT_BATCH;

use crate::amqp_setup;
use crate::amqp_setup::talk::{Heard, ask_to_read, connect, hear, open_sender, place};

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let digits: String = line.unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[tokio::test]
async fn events_26_memory_stays_flat_while_events_are_read() {
    let (node, _folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let address = node.listen();
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let mut message = Vec::new();
    for _ in 0..2000 {
        let mut event = Vec::new();
        steadfast_client::amqp::write_event(&mut event, &[7; 100]);
        steadfast_client::amqp::write_event(&mut message, &event);
    }
    // Ten million events by `cargo xtask soak events`.
    let told = std::env::var("STEADFAST_ROUNDS").ok();
    let batches: u32 = told.map_or(150, |text| text.parse().unwrap());
    for delivery in 0..batches {
        peer.send(1, 0, delivery, FORMAT_BATCH, &message);
        peer.flush().await.unwrap();
        while !matches!(hear(&mut peer).await, Heard::Accepted(..)) {}
    }
    ask_to_read(
        &mut peer,
        1,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    let all = batches * 2000;
    let (mut seen, mut early) = (0, 0);
    while seen < all {
        peer.grant(1, 1, seen, 1000, seen);
        peer.flush().await.unwrap();
        for _ in 0..1000 {
            while !matches!(hear(&mut peer).await, Heard::Transfer(_)) {}
        }
        seen += 1000;
        if seen == all / 10 {
            early = resident();
        }
    }
    let grown = resident().saturating_sub(early);
    assert!(grown < 16 * 1024, "{grown} KiB more after {all} events");
    node.stop().await;
}
