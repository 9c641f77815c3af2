//! The metrics of a node.

use std::fs;

use steadfast_core::limits;
use steadfast_net::http::MetricSample;
use steadfast_partition::PartitionCounts;
use steadfast_partition::region::PairStatus;
use steadfast_realtime::HubCounts;

use super::inner::Inner;

/// Samples all metrics.
pub(super) fn samples(inner: &Inner) -> Vec<MetricSample> {
    let doors = inner.runtime.router().mailboxes();
    let all: Vec<_> = doors.iter().map(|door| door.metrics().counts()).collect();
    let sum = |value: fn(&PartitionCounts) -> u64| all.iter().map(value).sum::<u64>();
    let longest = |value: fn(&PartitionCounts) -> f64| all.iter().map(value).fold(0.0, f64::max);
    let mut readings = vec![
        MetricSample::Gauge("partitions", "Partitions served", all.len() as f64),
        MetricSample::Counter(
            "commands",
            "Commands handled",
            sum(|counts| counts.commands),
        ),
        MetricSample::Counter(
            "commands_refused",
            "Commands that a service rejected",
            sum(|counts| counts.refused),
        ),
        MetricSample::Counter(
            "rows_missed",
            "Commands that waited for rows to be read",
            sum(|counts| counts.missed),
        ),
        MetricSample::Counter(
            "timers_fired",
            "Timers that fired",
            sum(|counts| counts.timers),
        ),
        MetricSample::Counter(
            "messages_sent",
            "Messages sent to other partitions",
            sum(|counts| counts.sent),
        ),
        MetricSample::Counter(
            "messages_received",
            "Messages received from other partitions",
            sum(|counts| counts.received),
        ),
        MetricSample::Counter(
            "messages_dropped",
            "Duplicate messages dropped",
            sum(|counts| counts.duplicates),
        ),
        MetricSample::Counter(
            "messages_poisoned",
            "Messages and timers that a service rejected",
            sum(|counts| counts.poisoned),
        ),
        MetricSample::Counter(
            "rollbacks",
            "Rollbacks of staged writes",
            sum(|counts| counts.rollbacks),
        ),
        MetricSample::Gauge(
            "commands_waiting",
            "Commands waiting for rows",
            sum(|counts| counts.waiting) as f64,
        ),
        MetricSample::Gauge(
            "replies_gated",
            "Replies and effects waiting for durability",
            sum(|counts| counts.gated) as f64,
        ),
        MetricSample::Gauge(
            "messages_backlog",
            "Messages not yet delivered to their partition",
            sum(|counts| counts.backlog) as f64,
        ),
        MetricSample::Gauge(
            "durable_streams",
            "Work item streams of task hub workers",
            inner.services.work.open().len() as f64,
        ),
        MetricSample::Counter(
            "durable_stale_results",
            "Worker results for work items that were no longer pending",
            inner.services.work.stale(),
        ),
        MetricSample::Gauge(
            "longest_turn_seconds",
            "Longest wall time of one owner-loop iteration, in seconds",
            longest(|counts| counts.longest_turn.as_secs_f64()),
        ),
        MetricSample::Gauge(
            "longest_work_seconds",
            "Longest CPU time of one owner-loop iteration, in seconds",
            longest(|counts| counts.longest_work.as_secs_f64()),
        ),
        MetricSample::Gauge(
            "log_unflushed_bytes",
            "Log not yet flushed to the tables, in bytes",
            inner.store.unflushed() as f64,
        ),
        MetricSample::Gauge(
            "stuck_workers",
            "Runtime worker threads that one task has blocked for 5 seconds or more",
            inner.watchdog.stuck() as f64,
        ),
        MetricSample::Counter(
            "worker_stalls",
            "Times that one task blocked a runtime worker thread for 5 seconds",
            inner.watchdog.stalls(),
        ),
        MetricSample::Gauge(
            "uptime_seconds",
            "Time since the node started, in seconds",
            inner.uptime().as_secs_f64(),
        ),
    ];
    readings.extend(events(inner));
    readings.extend(cluster(inner));
    readings.extend(region(inner));
    readings.extend(hubs(inner));
    if let Some(bytes) = resident_bytes() {
        readings.push(MetricSample::Gauge(
            "resident_bytes",
            "Resident memory of the process, in bytes",
            bytes as f64,
        ));
    }
    readings
}

/// The metrics of a region pair, for each of its homes.
fn region(inner: &Inner) -> Vec<MetricSample> {
    let Some(paired) = &inner.paired else {
        return Vec::new();
    };
    let standings = paired.statuses();
    let gauges = |name, help, value: fn(&PairStatus) -> f64| {
        let each = standings.iter();
        let each = each.map(|standing| (standing.home.clone(), value(standing)));
        MetricSample::Gauges(name, help, "home", each.collect())
    };
    let counters = |name, help, value: fn(&PairStatus) -> u64| {
        let each = standings.iter();
        let each = each.map(|standing| (standing.home.clone(), value(standing)));
        MetricSample::Counters(name, help, "home", each.collect())
    };
    vec![
        gauges(
            "region_owner",
            "Whether this region owns the jobs of a home",
            |standing| f64::from(u8::from(standing.is_owner)),
        ),
        gauges(
            "region_epoch",
            "Ownership epoch of the jobs of a home",
            |standing| standing.epoch as f64,
        ),
        gauges(
            "region_degraded",
            "Whether this region owns the jobs and the other one is not up to date",
            |standing| f64::from(u8::from(standing.mode == "degraded")),
        ),
        gauges(
            "region_lag_seconds",
            "Age of the oldest change that is not replicated, in seconds",
            |standing| standing.lag_ms as f64 / 1000.0,
        ),
        counters(
            "region_takeovers",
            "Times that this region became the owner",
            |standing| standing.takeovers,
        ),
        counters(
            "region_fenced",
            "Log entries rejected because this region was not the owner",
            |standing| standing.fenced,
        ),
    ]
}

/// The metrics of this node's cluster.
fn cluster(inner: &Inner) -> Vec<MetricSample> {
    let Some(cluster) = &inner.cluster else {
        return Vec::new();
    };
    let (counts, standing) = (cluster.counts(), cluster.status());
    let up = standing.nodes.iter().filter(|node| node.state == "up");
    let doors = inner.runtime.router().mailboxes();
    let epochs = doors.iter().map(|door| door.ledger().epoch().0);
    let (sent, retried) = inner.forwarder.as_ref().map_or((0, 0), |f| f.counts());
    let outcomes = inner.store.outcomes();
    let lags = inner.shards.as_ref().map(|shards| shards.replay_lags_ms());
    let lags = lags.unwrap_or_default().into_iter().enumerate();
    let lags = lags.map(|(shard, lag)| (shard.to_string(), lag as f64 / 1000.0));
    let commits = inner.shards.as_ref().map(|shards| shards.statements());
    let commits = commits.unwrap_or_default().into_iter().enumerate();
    let commits = commits.map(|(shard, count)| (shard.to_string(), count));
    vec![
        MetricSample::Gauges(
            "postgres_replay_lag_seconds",
            "Replay lag of the slowest standby, in seconds",
            "shard",
            lags.collect(),
        ),
        MetricSample::Counters(
            "postgres_commits",
            "Commit statements sent by this node",
            "shard",
            commits.collect(),
        ),
        MetricSample::Gauge("cluster_nodes", "Nodes that are up", up.count() as f64),
        MetricSample::Gauge(
            "cluster_nodes_missed",
            "Nodes that this node cannot reach",
            cluster.missed() as f64,
        ),
        MetricSample::Gauge(
            "cluster_partitions_idle",
            "Partitions without an owner",
            standing.idle.len() as f64,
        ),
        MetricSample::Gauge(
            "cluster_lease",
            "Whether the lease of this node is valid",
            f64::from(u8::from(cluster.has_lease())),
        ),
        MetricSample::Gauge(
            "cluster_epochs",
            "Sum of the epochs of the partitions served here",
            epochs.sum::<u64>() as f64,
        ),
        MetricSample::Counter("cluster_taken", "Partitions acquired", counts.taken),
        MetricSample::Counter(
            "cluster_given",
            "Partitions handed over on request, or because no other node reaches this one",
            counts.given,
        ),
        MetricSample::Counter("cluster_lapses", "Leases that expired", counts.lapses),
        MetricSample::Counter(
            "cluster_late_beats",
            "Failed renewals of the lease",
            counts.late_beats,
        ),
        MetricSample::Counter("cluster_forwarded", "Requests sent to other nodes", sent),
        MetricSample::Counter(
            "cluster_forward_retries",
            "Forwarded requests retried after a new lookup of the owner",
            retried,
        ),
        MetricSample::Counter(
            "entries_fenced",
            "Log entries rejected because another node owned the partition",
            outcomes.0,
        ),
        MetricSample::Counter(
            "entries_unknown",
            "Log entries whose outcome was unknown and had to be queried",
            outcomes.1,
        ),
    ]
}

/// The metrics of event hubs and their readers.
fn events(inner: &Inner) -> Vec<MetricSample> {
    let (traffic, readers) = (
        inner.services.hubs.traffic(),
        inner.services.hubs.reader_counts(),
    );
    vec![
        MetricSample::Counter("events_in", "Events published", traffic.events_in),
        MetricSample::Counter("event_bytes_in", "Bytes published", traffic.bytes_in),
        MetricSample::Counter(
            "events_out",
            "Events delivered to readers",
            traffic.events_out,
        ),
        MetricSample::Counter(
            "event_bytes_out",
            "Bytes delivered to readers",
            traffic.bytes_out,
        ),
        MetricSample::Gauge(
            "event_connections",
            "AMQP connections",
            inner.services.served.len() as f64,
        ),
        MetricSample::Gauge("event_readers", "Readers attached", readers.attached as f64),
        MetricSample::Counter(
            "event_readers_displaced",
            "Readers disconnected by another reader",
            readers.displaced,
        ),
        MetricSample::Counter("event_readers_refused", "Readers rejected", readers.refused),
        MetricSample::Counter(
            "event_owner_overlaps",
            "Partitions with two owners of one group at a time",
            readers.overlaps,
        ),
    ]
}

/// The metrics of SignalR hubs: the largest by name, the others summed.
fn hubs(inner: &Inner) -> Vec<MetricSample> {
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
        MetricSample::Gauges(name, help, "hub", values.collect())
    };
    let counter = |name, help, value| MetricSample::Counters(name, help, "hub", read(value));
    vec![
        gauge("realtime_clients", "Clients connected", |own| own.clients),
        gauge(
            "realtime_servers",
            "App server links, or the hub hosted in this process",
            |own| own.servers,
        ),
        gauge(
            "realtime_waiting_bytes",
            "Bytes waiting to be sent to clients",
            |own| own.waiting_bytes,
        ),
        counter(
            "realtime_connections",
            "Clients that have connected",
            |own| own.connected,
        ),
        counter(
            "realtime_received",
            "Messages received from clients",
            |own| own.received,
        ),
        counter(
            "realtime_deliveries",
            "Messages queued to clients by broadcasts",
            |own| own.delivered,
        ),
        counter(
            "realtime_dropped",
            "Clients closed because they did not read their messages",
            |own| own.dropped,
        ),
        counter(
            "realtime_moved",
            "Clients moved to another app server",
            |own| own.moved,
        ),
        counter(
            "realtime_unmoved",
            "Clients that were not moved when their app server left",
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
