//! What a node shows of its partitions and its process.

use std::fs;

use steadfast_core::limits;
use steadfast_partition::Counts;
use steadfast_partition::region::Standing;
use steadfast_protocols::http::Reading;
use steadfast_realtime::HubCounts;

use super::inner::Inner;

/// All readings at about one moment.
pub(super) fn readings(inner: &Inner) -> Vec<Reading> {
    let doors = inner.runtime.router().doors();
    let all: Vec<_> = doors.iter().map(|door| door.metrics().counts()).collect();
    let sum = |value: fn(&Counts) -> u64| all.iter().map(value).sum::<u64>();
    let longest = |value: fn(&Counts) -> f64| all.iter().map(value).fold(0.0, f64::max);
    let mut readings = vec![
        Reading::Gauge("partitions", "Partitions served", all.len() as f64),
        Reading::Counter(
            "commands",
            "Commands handled",
            sum(|counts| counts.commands),
        ),
        Reading::Counter(
            "commands_refused",
            "Commands that a service refused",
            sum(|counts| counts.refused),
        ),
        Reading::Counter(
            "rows_missed",
            "Commands that had to wait for rows",
            sum(|counts| counts.missed),
        ),
        Reading::Counter(
            "timers_fired",
            "Timers that fired",
            sum(|counts| counts.timers),
        ),
        Reading::Counter(
            "messages_sent",
            "Messages sent to other partitions",
            sum(|counts| counts.sent),
        ),
        Reading::Counter(
            "messages_received",
            "Messages of other partitions handled",
            sum(|counts| counts.received),
        ),
        Reading::Counter(
            "messages_dropped",
            "Messages that came again and were dropped",
            sum(|counts| counts.duplicates),
        ),
        Reading::Counter(
            "messages_poisoned",
            "Messages and timers that a service refused",
            sum(|counts| counts.poisoned),
        ),
        Reading::Counter(
            "rollbacks",
            "Times that staged writes were taken back",
            sum(|counts| counts.rollbacks),
        ),
        Reading::Gauge(
            "commands_waiting",
            "Commands that wait for rows",
            sum(|counts| counts.waiting) as f64,
        ),
        Reading::Gauge(
            "replies_gated",
            "Replies and effects that wait for durability",
            sum(|counts| counts.gated) as f64,
        ),
        Reading::Gauge(
            "messages_backlog",
            "Messages that have not arrived yet",
            sum(|counts| counts.backlog) as f64,
        ),
        Reading::Gauge(
            "durable_streams",
            "Streams of work that workers of task hubs hold",
            inner.own.work.open().len() as f64,
        ),
        Reading::Counter(
            "durable_stale_results",
            "Results of workers that nobody waited for any more",
            inner.own.work.stale(),
        ),
        Reading::Gauge(
            "longest_turn_seconds",
            "Longest time for which a partition's loop did not look up",
            longest(|counts| counts.longest_turn.as_secs_f64()),
        ),
        Reading::Gauge(
            "longest_work_seconds",
            "Longest processor time for which it did not",
            longest(|counts| counts.longest_work.as_secs_f64()),
        ),
        Reading::Gauge(
            "log_unflushed_bytes",
            "Log that is not in the tables yet",
            inner.store.unflushed() as f64,
        ),
        Reading::Gauge(
            "stuck_workers",
            "Worker threads of the runtime that one task has kept for 5 seconds or more",
            inner.watchdog.stuck() as f64,
        ),
        Reading::Counter(
            "worker_stalls",
            "Times that one task has kept a worker thread of the runtime for 5 seconds",
            inner.watchdog.stalls(),
        ),
        Reading::Gauge(
            "uptime_seconds",
            "Time since the start",
            inner.uptime().as_secs_f64(),
        ),
    ];
    readings.extend(events(inner));
    readings.extend(cluster(inner));
    readings.extend(region(inner));
    readings.extend(hubs(inner));
    if let Some(bytes) = resident_bytes() {
        readings.push(Reading::Gauge(
            "resident_bytes",
            "Memory of the process",
            bytes as f64,
        ));
    }
    readings
}

/// How the pair of regions stands, for each of its homes.
fn region(inner: &Inner) -> Vec<Reading> {
    let Some(paired) = &inner.paired else {
        return Vec::new();
    };
    let standings = paired.homes.iter().map(|home| home.pairing.standing());
    let standings: Vec<_> = standings.collect();
    let gauges = |name, help, value: fn(&Standing) -> f64| {
        let each = standings.iter();
        let each = each.map(|standing| (standing.home.clone(), value(standing)));
        Reading::Gauges(name, help, "home", each.collect())
    };
    let counters = |name, help, value: fn(&Standing) -> u64| {
        let each = standings.iter();
        let each = each.map(|standing| (standing.home.clone(), value(standing)));
        Reading::Counters(name, help, "home", each.collect())
    };
    vec![
        gauges(
            "region_owner",
            "Whether this region owns the jobs of a home",
            |standing| f64::from(u8::from(standing.is_owner)),
        ),
        gauges(
            "region_epoch",
            "How often the jobs of a home have changed hands",
            |standing| standing.epoch as f64,
        ),
        gauges(
            "region_degraded",
            "Whether this region owns the jobs and the other one does not have everything",
            |standing| f64::from(u8::from(standing.mode == "degraded")),
        ),
        gauges(
            "region_lag_seconds",
            "Age of the oldest change that only this region has",
            |standing| standing.lag_ms as f64 / 1000.0,
        ),
        counters(
            "region_takeovers",
            "How often this region has become the owner",
            |standing| standing.takeovers,
        ),
        counters(
            "region_fenced",
            "Entries refused because this region was not the owner",
            |standing| standing.fenced,
        ),
    ]
}

/// What this node has been through in its cluster.
fn cluster(inner: &Inner) -> Vec<Reading> {
    let Some(cluster) = &inner.cluster else {
        return Vec::new();
    };
    let (counts, standing) = (cluster.counts(), cluster.standing());
    let up = standing.nodes.iter().filter(|node| node.state == "up");
    let doors = inner.runtime.router().doors();
    let epochs = doors.iter().map(|door| door.ledger().epoch().0);
    let (sent, retried) = inner.forwarded.as_ref().map_or((0, 0), |f| f.counts());
    let outcomes = inner.store.outcomes();
    let lags = inner.shards.as_ref().map(|shards| shards.replay_lags_ms());
    let lags = lags.unwrap_or_default().into_iter().enumerate();
    let lags = lags.map(|(shard, lag)| (shard.to_string(), lag as f64 / 1000.0));
    let commits = inner.shards.as_ref().map(|shards| shards.statements());
    let commits = commits.unwrap_or_default().into_iter().enumerate();
    let commits = commits.map(|(shard, count)| (shard.to_string(), count));
    vec![
        Reading::Gauges(
            "postgres_replay_lag_seconds",
            "How far the slowest standby is behind with its replay",
            "shard",
            lags.collect(),
        ),
        Reading::Counters(
            "postgres_commits",
            "Commit statements sent by this node",
            "shard",
            commits.collect(),
        ),
        Reading::Gauge("cluster_nodes", "Nodes that are up", up.count() as f64),
        Reading::Gauge(
            "cluster_nodes_missed",
            "Nodes that this one does not reach",
            cluster.missed() as f64,
        ),
        Reading::Gauge(
            "cluster_partitions_idle",
            "Partitions that nobody serves",
            standing.idle.len() as f64,
        ),
        Reading::Gauge(
            "cluster_lease",
            "Whether the lease of this node holds",
            f64::from(u8::from(cluster.has_lease())),
        ),
        Reading::Gauge(
            "cluster_epochs",
            "Sum of the epochs of the partitions served here",
            epochs.sum::<u64>() as f64,
        ),
        Reading::Counter("cluster_taken", "Partitions taken", counts.taken),
        Reading::Counter(
            "cluster_given",
            "Partitions given to nodes that asked, or because nobody reaches this one",
            counts.given,
        ),
        Reading::Counter("cluster_lapses", "Leases that ended", counts.lapses),
        Reading::Counter(
            "cluster_late_beats",
            "Renewals of the lease that failed",
            counts.late_beats,
        ),
        Reading::Counter("cluster_forwarded", "Requests sent to other nodes", sent),
        Reading::Counter(
            "cluster_forward_retries",
            "Times that an owner was looked for again",
            retried,
        ),
        Reading::Counter(
            "entries_fenced",
            "Entries that were refused because another owner had the partition",
            outcomes.0,
        ),
        Reading::Counter(
            "entries_unknown",
            "Entries whose outcome had to be found out",
            outcomes.1,
        ),
    ]
}

/// What goes in and out of event hubs, and who reads.
fn events(inner: &Inner) -> Vec<Reading> {
    let (traffic, readers) = (inner.own.hubs.traffic(), inner.own.hubs.reader_counts());
    vec![
        Reading::Counter("events_in", "Events published", traffic.events_in),
        Reading::Counter("event_bytes_in", "Bytes published", traffic.bytes_in),
        Reading::Counter("events_out", "Events given to readers", traffic.events_out),
        Reading::Counter(
            "event_bytes_out",
            "Bytes given to readers",
            traffic.bytes_out,
        ),
        Reading::Gauge(
            "event_connections",
            "Connections of AMQP",
            inner.own.served.len() as f64,
        ),
        Reading::Gauge("event_readers", "Readers attached", readers.attached as f64),
        Reading::Counter(
            "event_readers_displaced",
            "Readers cut off by another",
            readers.displaced,
        ),
        Reading::Counter(
            "event_readers_refused",
            "Readers that were not let in",
            readers.refused,
        ),
        Reading::Counter(
            "event_owner_overlaps",
            "Partitions with two owners of one group at a time",
            readers.overlaps,
        ),
    ]
}

/// Hubs and their clients: the largest by name, the others together.
fn hubs(inner: &Inner) -> Vec<Reading> {
    let mut all = inner.hosted.realtime.counts();
    all.sort_by_key(|own| std::cmp::Reverse(own.clients));
    let others = all.split_off(all.len().min(limits::COUNTED_HUBS));
    let read = |value: fn(&HubCounts) -> u64| {
        let named = all.iter().map(|own| (own.hub.clone(), value(own)));
        let rest: u64 = others.iter().map(value).sum();
        let rest = (!others.is_empty()).then(|| ("(others)".to_owned(), rest));
        named.chain(rest).collect::<Vec<_>>()
    };
    let gauge = |name, help, value| {
        let values = read(value).into_iter();
        let values = values.map(|(hub, value)| (hub, value as f64));
        Reading::Gauges(name, help, "hub", values.collect())
    };
    let counter = |name, help, value| Reading::Counters(name, help, "hub", read(value));
    vec![
        gauge("realtime_clients", "Clients connected", |own| own.clients),
        gauge(
            "realtime_servers",
            "Links of app servers, or the hub in this process",
            |own| own.servers,
        ),
        gauge(
            "realtime_waiting_bytes",
            "Bytes that wait to be sent to clients",
            |own| own.waiting_bytes,
        ),
        counter("realtime_connections", "Clients that have come", |own| {
            own.connected
        }),
        counter("realtime_received", "Messages of clients", |own| {
            own.received
        }),
        counter(
            "realtime_deliveries",
            "Messages put into queues of clients by sends to several",
            |own| own.delivered,
        ),
        counter(
            "realtime_dropped",
            "Clients closed because they did not read",
            |own| own.dropped,
        ),
        counter(
            "realtime_moved",
            "Clients moved to another app server",
            |own| own.moved,
        ),
        counter(
            "realtime_unmoved",
            "Clients left when an app server that moves them went",
            |own| own.unmoved,
        ),
    ]
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
