//! Sends and reads events over AMQP, and says how fast.
//!
//! `amqp_load <port> <hub> <partitions> <connections> <megabytes> <events per batch>`
#![allow(clippy::print_stdout, reason = "it reports to whoever runs it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_protocols::amqp::client::{self, Client, Reading};
use steadfast_wire::amqp::delivery::FORMAT_BATCH;
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::{sasl, write};
use steadfast_wire::sas;
use tokio::net::TcpStream;

const EVENT: usize = 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (port, hub) = (number(0) as u16, arguments[1].clone());
    let (partitions, connections) = (number(2), number(3));
    let (total, per_batch) = (number(4) * 1024 * 1024 / EVENT as u64, number(5));
    let clock = Arc::new(SystemClock::new());
    let batches = total / per_batch / connections;

    let start = clock.monotonic();
    let mut tasks = Vec::new();
    let latencies = Arc::new(parking_lot::Mutex::new(Vec::new()));
    for connection in 0..connections {
        let (hub, clock) = (hub.clone(), Arc::clone(&clock));
        let partition = connection % partitions;
        let latencies = Arc::clone(&latencies);
        tasks.push(tokio::spawn(async move {
            let taken = send(port, &hub, partition, batches, per_batch, &*clock).await?;
            latencies.lock().extend(taken);
            Ok::<_, Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let sent = batches * per_batch * connections;
    let mut latencies = std::mem::take(&mut *latencies.lock());
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    report("in ", sent, clock.monotonic() - start);
    println!(
        "ack p50 {} us, p99 {p99} us",
        latencies[latencies.len() / 2]
    );

    let start = clock.monotonic();
    let read = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for partition in 0..partitions {
        let (hub, read) = (hub.clone(), Arc::clone(&read));
        tasks.push(tokio::spawn(async move {
            receive(port, &hub, partition, &read, sent).await
        }));
    }
    while read.load(Ordering::Relaxed) < sent {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    report("out", sent, clock.monotonic() - start);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

fn report(what: &str, events: u64, time: std::time::Duration) {
    let seconds = time.as_secs_f64();
    let megabytes = events as f64 * EVENT as f64 / 1024.0 / 1024.0;
    println!(
        "{what} {events} events in {seconds:.2} s: {:.1} MB/s, {:.0} events/s",
        megabytes / seconds,
        events as f64 / seconds
    );
}

async fn connect(port: u16, hub: &str) -> Result<Client<TcpStream>, Failure> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let init = sasl::Init {
        mechanism: "ANONYMOUS",
        response: b"",
    };
    let mut client = Client::connect(stream, &init).await?;
    let audience = format!("sb://localhost/{hub}");
    let token = sas::token(
        &audience,
        4_000_000_000,
        "RootManageSharedAccessKey",
        "SAS_KEY_VALUE",
    );
    assert_eq!(client.put_token(0, &audience, &token).await?, 202);
    client.begin(1).await?;
    Ok(client)
}

/// Sends batches, up to 16 of them not acknowledged; answers the times in us.
async fn send(
    port: u16,
    hub: &str,
    partition: u64,
    batches: u64,
    per_batch: u64,
    clock: &dyn Clock,
) -> Result<Vec<u64>, Failure> {
    let mut client = connect(port, hub).await?;
    client.attach_sender(1, 0, "load", &format!("{hub}/Partitions/{partition}"));
    client.flush().await?;
    client.next().await?;
    client.next().await?;
    let mut message = Vec::new();
    for _ in 0..per_batch {
        let mut event = Vec::new();
        client::write_event(&mut event, &[7; EVENT]);
        write::descriptor(&mut message, 0x75);
        write::binary(&mut message, &event);
    }
    let ahead = std::env::var("AHEAD").map_or(16, |text| text.parse().expect("a number"));
    let (mut sent, mut acked) = (0, 0);
    let mut started = vec![0; batches as usize];
    let mut taken = Vec::with_capacity(batches as usize);
    while acked < batches {
        while sent < batches && sent - acked < ahead {
            started[sent as usize] = clock.monotonic().as_micros() as u64;
            client.send(1, 0, sent as u32, FORMAT_BATCH, &message);
            sent += 1;
        }
        client.flush().await?;
        let frame = client.next().await?;
        if let (Performative::Disposition(told), _) = performative::read(&frame.body)? {
            let now = clock.monotonic().as_micros() as u64;
            for delivery in told.first..=told.last.unwrap_or(told.first) {
                taken.push(now - started[delivery as usize]);
                acked += 1;
            }
        }
    }
    Ok(taken)
}

async fn receive(
    port: u16,
    hub: &str,
    partition: u64,
    read: &AtomicU64,
    all: u64,
) -> Result<(), Failure> {
    let mut client = connect(port, hub).await?;
    let address = format!("{hub}/ConsumerGroups/$Default/Partitions/{partition}");
    client.attach_reader(1, 0, "load", &address, &Reading::default());
    client.flush().await?;
    client.next().await?;
    let credit = 4000;
    let mut seen = 0;
    let mut granted = credit;
    client.grant(1, 0, 0, credit, 0);
    while read.load(Ordering::Relaxed) < all {
        client.flush().await?;
        client.fill().await?;
        let mut came = 0;
        while let Some(frame) = client.take()? {
            came += u64::from(frame.body.get(2) == Some(&0x14));
        }
        seen += came as u32;
        read.fetch_add(came, Ordering::Relaxed);
        if granted - seen < credit / 2 {
            client.grant(1, 0, seen, credit, seen);
            granted = seen + credit;
        }
    }
    Ok(())
}
