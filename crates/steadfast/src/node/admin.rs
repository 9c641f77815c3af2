//! The administration interface of a node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use steadfast_admin::{
    DrainReport, KeyInfo, KeySecret, NodeAdmin, NodeBackupRequest, NodeRestoreRequest, NodeStatus,
    StatusPartition, TimeMoveRequest, TimeMoveTarget,
};
use steadfast_core::error::Code;
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_net::access::{CLIENT_KEY, Grant, Key, Principal, SHARED, development_ring};
use steadfast_net::http::{Problem, State};
use steadfast_partition::cluster::{Cluster, ClusterNodeStatus, ClusterStatus};
use steadfast_partition::region;

use super::error::Error;
use super::inner::{Inner, ring};
use super::keys::KeyChangeOutcome;
use super::listen_address::ListenAddress;
use super::postgres;
use super::region::{MovedHome, PairMember};
use super::time::AdvanceOptions;
use crate::config::{Config, EngineKind};

/// The resource exists already, or cannot be changed here.
const CONFLICT: Code = Code("STF-6022");

/// The engine does not support the operation.
const OTHER_ENGINE: Code = Code("STF-6031");

/// The jobs of a pair were not moved.
const NOT_MOVED: Code = Code("STF-7034");

#[async_trait]
impl NodeAdmin for Inner {
    fn status(&self) -> NodeStatus {
        let state = match self.health.state() {
            State::Starting => "starting",
            State::Ready => "ready",
            State::Draining => "draining",
        };
        NodeStatus {
            node: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: state.to_owned(),
            uptime_s: self.uptime().as_secs(),
            engine: engine_name(self.config.engine).to_owned(),
            data: (self.config.engine == EngineKind::Local)
                .then(|| self.config.data.display().to_string()),
            addresses: NodeAdmin::addresses(self),
            partitions: self.partitions_now(),
            restore: self.restored.clone(),
            backup: self.backup_progress(),
        }
    }

    fn addresses(&self) -> Vec<(String, String)> {
        let addresses = self.addresses.lock();
        let address = |own: &ListenAddress| (own.name.to_owned(), own.url.clone());
        addresses.iter().map(address).collect()
    }

    fn time(&self) -> Value {
        json!({
            "now": format_time(self.clock.now()),
            "is_virtual": self.virtual_time.is_some(),
        })
    }

    async fn move_time(&self, request: TimeMoveRequest) -> Result<Value, Problem> {
        let TimeMoveRequest {
            target,
            limit,
            leaves_activities,
        } = request;
        let options = AdvanceOptions {
            limit,
            leaves_activities,
        };
        let moved = match target {
            TimeMoveTarget::By(by) => self.advance_by(by, options).await,
            TimeMoveTarget::To(to) => self.advance_to(to, options).await,
        };
        let report = moved.map_err(|error| problem(error.into()))?;
        tracing::info!(event = "time.moved", now = %format_time(report.now));
        Ok(report.to_json())
    }

    fn is_development(&self) -> bool {
        self.is_development
    }

    async fn drain(&self, limit: Option<Duration>) -> Result<DrainReport, Problem> {
        let sheet = self.leave(limit.unwrap_or(self.config.drain_limit)).await;
        self.ended.cancel();
        Ok(sheet)
    }

    fn reload(&self) -> Result<Vec<String>, Problem> {
        let config = self.source.as_ref().map(|source| source()).transpose();
        let config = config.map_err(Problem::because)?;
        // Each part is reloaded separately: a bad certificate does not keep a removed key valid.
        let mut parts = vec![("keys", self.reload_keys(config.as_ref()))];
        if let Some(certificate) = &self.certificate {
            let done = certificate.reload();
            let done = done.map_err(|error| Problem::new(error.code(), error.to_string()));
            parts.push(("certificate", done));
        }
        for (name, reload) in self.reloads.lock().iter() {
            let config = config.as_ref().unwrap_or(&self.config);
            parts.push((*name, reload(config).map_err(Problem::because)));
        }
        let mut read = Vec::new();
        let mut failure = None;
        for (name, done) in parts {
            match done {
                Ok(()) => read.push(name.to_owned()),
                Err(problem) => failure = failure.or(Some(problem)),
            }
        }
        tracing::info!(event = "node.reloaded", read = ?read);
        match failure {
            Some(problem) => Err(problem),
            None => Ok(read),
        }
    }

    async fn back_up(&self, order: NodeBackupRequest) -> Result<Value, Problem> {
        self.take_backup(order).await
    }

    async fn restore(&self, order: NodeRestoreRequest) -> Result<u64, Problem> {
        let order = self.check_restore(order).await?;
        let number = self.restores + 1;
        *self.pending_restore.lock() = Some(order);
        self.ended.cancel();
        Ok(number)
    }

    fn cluster(&self) -> Result<Value, Problem> {
        Ok(cluster_json(&self.members()?.status()))
    }

    async fn move_partition(&self, partition: u16, node: &str) -> Result<(), Problem> {
        let most = self.partitions();
        if partition >= most {
            let words = format!("there are partitions 0 to {}", most - 1);
            return Err(Problem::bad_request(words));
        }
        let members = self.members()?;
        let is_there = |one: &ClusterNodeStatus| one.name == node && one.state == "up";
        if !members.status().nodes.iter().any(is_there) {
            return Err(Problem::not_found(format!("no node '{node}' is up")));
        }
        Ok(members.move_to(partition, node).await?)
    }

    async fn scrub(&self) -> Result<Value, Problem> {
        let alone = "only the engine postgres has replicas to scrub";
        let shards = self.shards.as_ref();
        let shards = shards.ok_or_else(|| Problem::new(OTHER_ENGINE, alone))?;
        Ok(postgres::scrub(shards).await)
    }

    fn region(&self) -> Result<Value, Problem> {
        Ok(region_json(self.paired()?))
    }

    async fn fail_over(&self, home: Option<&str>, accepts_loss: bool) -> Result<(), Problem> {
        let paired = self.paired()?;
        self.move_jobs(home, |_| paired.region().to_owned(), accepts_loss)
            .await
    }

    async fn fail_back(&self, home: Option<&str>) -> Result<(), Problem> {
        // The home region requests its jobs, whichever region received the request.
        self.move_jobs(home, |home| home.to_owned(), false).await
    }

    async fn inspect(&self, question: Value) -> Result<Value, Problem> {
        self.inspect_partitions(question).await
    }

    fn keys(&self) -> Vec<KeyInfo> {
        let ring = self.access.ring();
        let info = |key: &Arc<Key>| KeyInfo {
            name: key.name.clone(),
            rights: key.grants.iter().map(ToString::to_string).collect(),
            secrets: key.secrets().count() as u8,
            from: self.origin(&key.name).to_owned(),
        };
        ring.keys().map(info).collect()
    }

    fn create_key(
        &self,
        maker: &Principal,
        name: &str,
        rights: &[String],
    ) -> Result<KeySecret, Problem> {
        // Names are path segments of the REST interface, where dots have a meaning.
        let is_bad = matches!(name, "" | "." | "..")
            || name.len() > 64
            || name.contains(|c: char| c.is_control() || c == '/');
        if is_bad {
            return Err(Problem::bad_request(
                "a key's name has 1 to 64 characters and no '/'",
            ));
        }
        if name.eq_ignore_ascii_case(SHARED) {
            return Err(Problem::bad_request(format!(
                "'{SHARED}' is the account of the blob endpoint that all keys use; choose \
                 another name for the key"
            )));
        }
        if rights.is_empty() {
            return Err(Problem::bad_request(
                "a key needs a right, such as 'send events/houses'",
            ));
        }
        if rights.len() > limits::RIGHTS {
            let most = limits::RIGHTS;
            return Err(Problem::bad_request(format!(
                "a key has {most} rights at most"
            )));
        }
        let grants = rights.iter().map(|right| right.parse::<Grant>());
        let grants: Result<Vec<_>, _> = grants.collect();
        let grants = grants.map_err(|error| Problem::bad_request(error.to_string()))?;
        maker.grants_all(&grants)?;
        let _changing = self.key_lock.lock();
        if self.access.ring().get(name).is_some() {
            return Err(exists(name));
        }
        let changed = self.keys.create(name, &grants).map_err(problem)?;
        self.changed(name, changed)
    }

    fn rotate_key(&self, maker: &Principal, name: &str) -> Result<KeySecret, Problem> {
        let _changing = self.key_lock.lock();
        self.changeable(name)?;
        // The caller sees the new secret: the key must not have more rights than the caller's own.
        if let Some(key) = self.access.ring().get(name) {
            maker.grants_all(&key.grants)?;
        }
        let changed = self.keys.rotate(name).map_err(problem)?;
        self.changed(name, changed)
    }

    fn delete_key(&self, name: &str) -> Result<(), Problem> {
        let _changing = self.key_lock.lock();
        self.changeable(name)?;
        if self.keys.delete(name).map_err(problem)? {
            self.read_keys()
        } else {
            Err(missing(name))
        }
    }
}

/// The status of a region pair in the form of the REST interface.
fn region_json(paired: &PairMember) -> Value {
    let standings = paired.statuses();
    let home = |standing: &region::PairStatus| {
        json!({
            "home": standing.home,
            "owner": standing.owner,
            "epoch": standing.epoch,
            "is_owner": standing.is_owner,
            "mode": standing.mode,
            "lag_ms": standing.lag_ms,
            "takeovers": standing.takeovers,
            "fenced": standing.fenced,
        })
    };
    json!({
        "region": paired.region(),
        "pair": paired.other(),
        "reaches_pair": standings.iter().any(|standing| standing.reaches_pair),
        "reaches_witness": standings.iter().any(|standing| standing.reaches_witness),
        "has_witness": standings.iter().any(|standing| standing.has_witness),
        "homes": standings.iter().map(home).collect::<Vec<_>>(),
    })
}

/// The status of a cluster in the form of the REST interface.
fn cluster_json(standing: &ClusterStatus) -> Value {
    let node = |node: &ClusterNodeStatus| {
        let partitions = node.partitions.iter();
        let partitions =
            partitions.map(|(index, epoch)| json!({"partition": index, "epoch": epoch.0}));
        json!({
            "name": node.name,
            "number": node.number,
            "address": node.address,
            "state": node.state,
            "protocol": node.protocol,
            "schema": node.schema,
            "seen_ms": node.seen_ms,
            "partitions": partitions.collect::<Vec<_>>(),
        })
    };
    json!({
        "cluster": standing.cluster,
        "node": standing.node,
        "nodes": standing.nodes.iter().map(node).collect::<Vec<_>>(),
        "idle": standing.idle,
    })
}

impl Inner {
    /// Moves the jobs of one home, or of both, to a region.
    async fn move_jobs(
        &self,
        home: Option<&str>,
        to: impl Fn(&str) -> String,
        accepts_loss: bool,
    ) -> Result<(), Problem> {
        let paired = self.paired()?;
        let atlas = &self.config.regions.atlas;
        let home = home.map(|home| atlas.find(home).map_or(home, |known| &known.name));
        let names = paired.home_names();
        let meant = names.into_iter();
        let meant = meant.filter(|name| home.is_none_or(|home| *name == home));
        let moves: Vec<_> = meant.map(|name| (name.to_owned(), to(name))).collect();
        if moves.is_empty() {
            let [one, other] = names;
            let message = format!("the homes of this pair are {one} and {other}");
            return Err(Problem::bad_request(message));
        }
        let (mut refused, mut said) = (false, Vec::new());
        for moved in paired.transfer(moves, accepts_loss).await {
            let MovedHome { home, to, result } = moved;
            refused |= result.is_err();
            said.push(match result {
                Ok(()) => format!("the jobs of {home} are in {to}"),
                Err(why) => format!("those of {home} are not known to be in {to}: {why}"),
            });
        }
        if refused {
            Err(Problem::new(NOT_MOVED, said.join("; ")))
        } else {
            Ok(())
        }
    }

    /// This server's membership in a region pair.
    fn paired(&self) -> Result<&Arc<PairMember>, Problem> {
        let alone = "this server belongs to no pair of regions: set jobs.region";
        let paired = self.paired.as_ref();
        paired.ok_or_else(|| Problem::new(OTHER_ENGINE, alone))
    }

    fn members(&self) -> Result<&Arc<Cluster>, Problem> {
        let alone = "this node is alone: only the engine postgres has a cluster";
        let members = self.cluster.as_ref();
        members.ok_or_else(|| Problem::new(OTHER_ENGINE, alone))
    }

    fn partitions_now(&self) -> Vec<StatusPartition> {
        let doors = self.runtime.router().mailboxes();
        let row = |door: &steadfast_partition::Mailbox| {
            let counts = door.metrics().counts();
            StatusPartition {
                partition: door.partition().to_string(),
                epoch: door.ledger().epoch().0,
                commands: counts.commands,
                timers: counts.timers,
                backlog: counts.backlog,
            }
        };
        doors.iter().map(row).collect()
    }

    /// The origin of a key.
    fn origin(&self, name: &str) -> &'static str {
        let is_declared = self.declared.read().get(name).is_some();
        if name == CLIENT_KEY {
            return "server";
        }
        let known = development_ring();
        match (
            is_declared,
            self.is_development && known.get(name).is_some(),
        ) {
            (_, true) => "development",
            (true, _) => "configuration",
            (false, _) => "keys",
        }
    }

    fn changeable(&self, name: &str) -> Result<(), Problem> {
        match self.origin(name) {
            "configuration" => Err(Problem::new(
                CONFLICT,
                format!("the key '{name}' stands in the configuration file: change it there"),
            )),
            "server" => Err(Problem::new(
                CONFLICT,
                format!("the key '{name}' is the server's own and cannot be changed"),
            )),
            "development" => Err(Problem::new(
                CONFLICT,
                format!("the key '{name}' is a development key and cannot be changed"),
            )),
            _ => Ok(()),
        }
    }

    fn changed(&self, name: &str, changed: KeyChangeOutcome) -> Result<KeySecret, Problem> {
        let secret = match changed {
            KeyChangeOutcome::Done(secret) => secret,
            KeyChangeOutcome::Exists => return Err(exists(name)),
            KeyChangeOutcome::Missing => return Err(missing(name)),
            KeyChangeOutcome::Full => {
                let message = format!("there are {} keys already: delete one", limits::KEYS);
                return Err(Problem::new(CONFLICT, message));
            }
        };
        self.read_keys()?;
        Ok(KeySecret {
            name: name.to_owned(),
            secret: secret.reveal().to_owned(),
        })
    }

    fn reload_keys(&self, config: Option<&Config>) -> Result<(), Problem> {
        let _changing = self.key_lock.lock();
        if let Some(config) = config {
            let declared = config.ring().map_err(|error| problem(error.into()))?;
            *self.declared.write() = declared;
        }
        self.read_keys()?;
        self.access.audit().reloaded(&self.access.ring());
        Ok(())
    }

    /// Puts the current keys into effect. The caller holds the key lock.
    fn read_keys(&self) -> Result<(), Problem> {
        let declared = self.declared.read().clone();
        let mut fresh = ring(&declared, &self.keys, self.is_development).map_err(problem)?;
        fresh.add(self.client_key.clone());
        self.access.replace(fresh);
        Ok(())
    }
}

fn engine_name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Local => "local",
        EngineKind::Memory => "memory",
        EngineKind::Postgres => "postgres",
    }
}

fn exists(name: &str) -> Problem {
    let message = format!("there is a key '{name}' already: rotate or delete it");
    Problem::new(CONFLICT, message)
}

fn missing(name: &str) -> Problem {
    Problem::not_found(format!("there is no key '{name}'"))
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn problem(error: Error) -> Problem {
    Problem::new(error.code(), error.to_string())
}
