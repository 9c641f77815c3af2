//! An alarm company that watches a hundred thousand houses.
//!
//! `houses <folder>`: the sensors of every house report to an event hub of sixteen
//! partitions, consumers share them, and each house has its aggregate in a collection.
//! A blob per partition summarizes its houses for a web page. The input adds a consumer
//! (`more`) or kills the oldest one (`kill`); at the end of the input the program exits.
//! Kill the process at any time and start it again: every report is counted exactly once.
#![expect(clippy::print_stdout, reason = "it prints to its user")]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use steadfast::Node;
use steadfast::collections::{Dictionary, DictionaryQuery};
use steadfast::config::{Config, Layers};
use steadfast::events::{
    Blobs, Conditions, Context, EventDataBatch, EventHubDefinition, Guarantee, Handler,
    HandlerResult, Processor, ProcessorOptions, ProducerOptions, ProducerSequence, PutBlobRequest,
    ReceivedEvent, partition_of,
};
use steadfast::ownership::strategy::{GroupTiming, Strategy};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const HOUSES: u32 = 100_000;
const PARTITIONS: u32 = 16;
/// Reports that a sensor gateway sends in one batch.
const AT_ONCE: usize = 250;
/// The blobs: `aggregate/<partition>.json`.
const PAGES: &str = "devstoreaccount1/houses";

/// Counts the reports of each house and adds up their warmth.
struct Aggregate {
    pages: Blobs,
}

impl Handler for Aggregate {
    /// The checkpoint is in the same transaction. The page is written before the commit: if
    /// the commit fails, the events are delivered again and the page is written again.
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let name = format!("aggregate/{}.json", context.partition());
        let houses: Dictionary<u32, (u32, u32)> = context.state()?.get_or_add("houses").await?;
        let tx = context.transaction()?;
        for event in events {
            let report = std::str::from_utf8(&event.body)?;
            let (house, warmth) = report.split_once(' ').ok_or("not a report")?;
            let (house, warmth): (u32, u32) = (house.parse()?, warmth.parse()?);
            let (reports, sum) = houses.get(tx, &house).await?.map_or((0, 0), |sum| *sum);
            houses.set(tx, house, (reports + 1, sum + warmth)).await?;
        }
        let mut page = serde_json::Map::new();
        for (house, sum) in houses.entries(tx, DictionaryQuery::all()).await? {
            let (reports, warmth) = *sum;
            let aggregate = serde_json::json!({"reports": reports, "warmth": warmth});
            page.insert(house.to_string(), aggregate);
        }
        let put = PutBlobRequest {
            name,
            body: serde_json::to_vec(&page)?.into(),
            content_type: "application/json".into(),
            ..PutBlobRequest::default()
        };
        self.pages.put(PAGES, put, Conditions::default()).await?;
        Ok(())
    }
}

/// Starts another consumer of the group. Dropping it kills it: it releases nothing, and
/// the others take its partitions when its ownerships have expired.
async fn consumer(node: &Node) -> Outcome<Processor> {
    let options = ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(Arc::clone(node.replicas())),
        timing: GroupTiming::new(Duration::from_millis(200), Duration::from_millis(1200)),
        strategy: Strategy::GREEDY,
        batch: 2000,
        ..ProcessorOptions::default()
    };
    let pages = node.blobs().clone();
    let handler = Arc::new(Aggregate { pages });
    let hubs = node.event_hubs();
    Ok(hubs.process("houses", "$Default", options, handler).await?)
}

/// Reports for the houses of one partition. The gateway numbers its batches and resumes
/// behind the last one in the event hub: no report is lost, and duplicates are dropped.
async fn report(node: &Node, partition: u32) -> Outcome<()> {
    let gateways = node.singleton("gateways").await?;
    let known = gateways.dictionary::<u32, i64>("producers").await?;
    let id = gateways.transact(async |mut tx| {
        let id = known.get(&mut tx, partition).await?;
        tx.commit(id.map(|id| *id)).await
    });
    let sender = node.event_hubs().sender("houses", Some(partition)).await?;
    let wish = ProducerOptions {
        id: id.await?,
        ..ProducerOptions::default()
    };
    let producer = sender.producer(wish).await?;
    let keep = gateways.transact(async |mut tx| {
        known.set(&mut tx, partition, producer.id).await?;
        tx.commit(()).await
    });
    keep.await?;
    let is_here = |house: &u32| partition_of(&format!("house-{house}"), PARTITIONS) == partition;
    let here: Vec<_> = (0..HOUSES).filter(is_here).collect();
    let mut first = usize::try_from(producer.last + 1)?;
    while first < here.len() {
        let these = &here[first..here.len().min(first + AT_ONCE)];
        let mut batch = EventDataBatch::new();
        for house in these {
            batch.push(format!("{house} {}", house % 40).as_bytes())?;
        }
        let stamp = ProducerSequence {
            id: producer.id,
            epoch: producer.epoch,
            first: i32::try_from(first)?,
        };
        sender
            .submit_as(Some(stamp), batch)
            .await?
            .published()
            .await?;
        first += these.len();
        println!("partition {partition}: {first} of {} reported", here.len());
    }
    Ok(())
}

/// Waits until the checkpoints cover every report.
async fn counted(node: &Node) -> Outcome<()> {
    loop {
        let standings = node.event_hubs().group_status("houses", "$Default").await?;
        if standings.iter().all(|one| one.lag == 0) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The lines of the input, read on a thread because reading blocks.
fn input() -> Outcome<UnboundedReceiver<String>> {
    let (send, lines) = unbounded_channel();
    let read = move || {
        let input = std::io::stdin().lines().map_while(Result::ok);
        input.map(|line| send.send(line)).all(|sent| sent.is_ok())
    };
    std::thread::Builder::new().spawn(read)?;
    Ok(lines)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).unwrap_or("data".into());
    // Free ports, so that several processes can run on one machine.
    let mut layers = Layers::new();
    for port in [
        "http.port",
        "events.amqp_port",
        "events.blob_port",
        "durable.port",
        "realtime.port",
    ] {
        layers = layers.flag(&format!("{port}=0"))?;
    }
    let node = Node::builder()
        .config(Config::new(&layers)?)
        .data(folder)
        .serve()
        .development()
        .event_hub(EventHubDefinition::new("houses", PARTITIONS))
        .start()
        .await?;
    if node.blobs().container(PAGES).await.is_err() {
        node.blobs().create_container(PAGES, Vec::new()).await?;
    }
    for (name, string) in node.connection_strings() {
        println!("{name}: {string}");
    }
    let mut consumers = VecDeque::from([consumer(&node).await?, consumer(&node).await?]);
    let sensors = (0..PARTITIONS).map(|partition| report(&node, partition));
    let work = async {
        futures_util::future::try_join_all(sensors).await?;
        counted(&node).await?;
        println!(
            "all is counted, {} readers overlapped",
            node.event_hubs().reader_counts().overlaps
        );
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    };
    let listen = async {
        let mut lines = input()?;
        while let Some(line) = lines.recv().await {
            match line.as_str() {
                "more" => consumers.push_back(consumer(&node).await?),
                "kill" => drop(consumers.pop_front()),
                _ => println!("'more' or 'kill' was expected"),
            }
            println!("{} consumers", consumers.len());
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    };
    let both = async {
        work.await?;
        std::future::pending().await
    };
    tokio::select! {
        ended = both => ended,
        ended = listen => ended,
    }?;
    node.stop(Duration::from_secs(10)).await;
    Ok(())
}
