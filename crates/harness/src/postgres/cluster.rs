//! One primary and two standbys with quorum commit.
//!
//! Promotion follows the rule: stop reception on both survivors, compare what they
//! received, promote the one with more. With a single survivor there is no promotion.

use anyhow::{Context, bail};

use super::server::PostgresServer;

/// The setting of all three: one standby, whichever it is.
const QUORUM: &str = "synchronous_standby_names = 'ANY 1 (a,b,c)'\n";

/// How many standbys stream and count.
const STREAMING: &str = "select count(*) from pg_stat_replication \
    where state = 'streaming' and sync_state in ('sync', 'quorum')";

/// Three servers.
pub struct PostgresCluster {
    servers: Vec<PostgresServer>,
    primary: usize,
}

impl PostgresCluster {
    /// Starts a primary and two standbys, and waits until both stream.
    pub fn start() -> anyhow::Result<PostgresCluster> {
        let names = ["a", "b", "c"];
        let servers: anyhow::Result<Vec<_>> = names
            .iter()
            .map(|name| PostgresServer::create(name, QUORUM))
            .collect();
        let mut cluster = PostgresCluster {
            servers: servers?,
            primary: 0,
        };
        cluster.servers[1].follow(&cluster.servers[0])?;
        cluster.servers[2].follow(&cluster.servers[0])?;
        for server in &mut cluster.servers {
            server.start()?;
        }
        cluster.wait_for_standbys(2)?;
        Ok(cluster)
    }

    /// The address of all three for the superuser.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self
            .servers
            .iter()
            .map(|server| format!("127.0.0.1:{}", server.port()))
            .collect();
        format!("postgres://postgres@{}/postgres", hosts.join(","))
    }

    /// Creates a database and returns its address.
    pub fn create_database(&mut self, name: &str) -> anyhow::Result<String> {
        let primary = self.primary();
        let create = format!("create database {name}");
        self.server(primary).sql(&create)?;
        let url = self.url();
        let servers = url
            .strip_suffix("/postgres")
            .context("the usual database")?;
        Ok(format!("{servers}/{name}"))
    }

    /// One of the three.
    pub fn server(&mut self, index: usize) -> &mut PostgresServer {
        &mut self.servers[index]
    }

    /// The index of the current primary.
    pub fn primary(&self) -> usize {
        self.primary
    }

    /// The two others.
    pub fn standbys(&self) -> [usize; 2] {
        let others: Vec<_> = (0..3).filter(|index| *index != self.primary).collect();
        [others[0], others[1]]
    }

    /// Waits until this many standbys stream and count.
    pub fn wait_for_standbys(&self, count: usize) -> anyhow::Result<()> {
        self.servers[self.primary].wait_for(STREAMING, &count.to_string())
    }

    /// Whether this many standbys stream and count now.
    pub fn has_standbys(&self, count: usize) -> bool {
        let found = self.servers[self.primary].sql(STREAMING);
        found.is_ok_and(|found| found == count.to_string())
    }

    /// Promotes the survivor that has received more; the other follows it.
    pub fn promote_by_rule(&mut self) -> anyhow::Result<usize> {
        let [one, other] = self.standbys();
        for index in [one, other] {
            if !self.servers[index].is_running() {
                bail!("with a single survivor no server may be promoted");
            }
            self.stop_reception(index)?;
        }
        let winner = if self.received(one)? >= self.received(other)? {
            one
        } else {
            other
        };
        self.promote(winner)?;
        let loser = one + other - winner;
        self.point(loser, winner)?;
        Ok(winner)
    }

    /// Cuts a standby off from its primary.
    pub fn stop_reception(&self, standby: usize) -> anyhow::Result<()> {
        let server = &self.servers[standby];
        server.set("primary_conninfo", "")?;
        server.wait_for("select count(*) from pg_stat_wal_receiver", "0")
    }

    /// Makes a standby follow a server.
    pub fn point(&self, standby: usize, primary: usize) -> anyhow::Result<()> {
        let conninfo = self.servers[primary].conninfo(&self.servers[standby]);
        self.servers[standby].set("primary_conninfo", &conninfo)
    }

    /// How far a standby has received the log.
    pub fn received(&self, standby: usize) -> anyhow::Result<u64> {
        let position = "pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')";
        let answer = self.servers[standby].sql(&format!("select {position}"))?;
        answer.parse().context("a position is a number")
    }

    /// Promotes a standby, whatever it has received.
    pub fn promote(&mut self, standby: usize) -> anyhow::Result<()> {
        let server = &self.servers[standby];
        // It may have been promoted by a caller that got no response.
        if server.sql("select pg_is_in_recovery()")? == "t" {
            server.sql("select pg_promote(true, 60)")?;
        }
        server.wait_for("select pg_is_in_recovery()", "f")?;
        self.primary = standby;
        Ok(())
    }

    /// Makes a server a new standby of the primary, from a fresh copy.
    pub fn rebuild(&mut self, index: usize) -> anyhow::Result<()> {
        let (low, high) = self.servers.split_at_mut(index.max(self.primary));
        let (fresh, primary) = if index < self.primary {
            (&mut low[index], &high[0])
        } else {
            (&mut high[0], &low[self.primary])
        };
        fresh.rebuild(primary)
    }
}
