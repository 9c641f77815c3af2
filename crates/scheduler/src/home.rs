//! The jobs whose home is one region of a pair.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_jobs::JobClient;
use steadfast_jobs::region::RegionMap;

use super::error::SchedulerError;

/// The replication status of a home's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// The region that owns them.
    pub owner: String,
    pub epoch: u64,
    /// Age of the oldest change that only the owner has.
    pub lag_ms: u64,
    /// `synced` or `degraded`.
    pub mode: String,
}

/// The jobs of one home, seen from a server of either region of the pair.
#[async_trait]
pub trait JobHome: Send + Sync + 'static {
    /// The region of the home.
    fn name(&self) -> &str;

    /// Whether this server's region owns the jobs now.
    fn is_owner(&self) -> bool;

    /// The replication status.
    fn replication(&self) -> Replication;

    /// Whether changes are rejected while the other region is not in sync.
    fn requires_sync(&self) -> bool;

    /// Forwards a request to the owner; `None` if the outcome is unknown.
    async fn forward(&self, errand: Bytes, is_read: bool) -> Option<Bytes>;

    /// The jobs, if this region is the owner.
    fn jobs(&self) -> &JobClient;

    /// The local replica of the jobs, if there is one.
    fn copies(&self) -> Option<JobClient>;
}

/// The collections of both regions.
pub struct HomePair {
    /// The region of this server.
    pub region: String,
    /// In the same order in both regions: the first one owns the names.
    pub homes: [Arc<dyn JobHome>; 2],
}

impl HomePair {
    /// The home of a location.
    pub(crate) fn place(
        &self,
        atlas: &RegionMap,
        location: &str,
    ) -> Result<&dyn JobHome, SchedulerError> {
        let name = place(atlas, location)?;
        let mut homes = self.homes.iter();
        let found = homes.find(|home| home.name() == name);
        found.map(|home| &**home).ok_or_else(|| {
            let [one, other] = [0, 1].map(|index| self.homes[index].name());
            let message = format!("{name} is not kept here: this server keeps {one} and {other}");
            SchedulerError::member("location", message)
        })
    }
}

/// The canonical name of a location.
pub(crate) fn place(atlas: &RegionMap, text: &str) -> Result<String, SchedulerError> {
    match atlas.find(text) {
        Some(region) => Ok(region.name.clone()),
        None => {
            let message = format!("there is no region '{text}'");
            Err(SchedulerError::member("location", message))
        }
    }
}

/// Adds the replication status to the JSON of a collection.
pub(crate) fn show(home: Option<&dyn JobHome>, shown: &mut Value) {
    let Some(home) = home else {
        return;
    };
    let Replication {
        owner,
        epoch,
        lag_ms,
        mode,
    } = home.replication();
    let replication = json!({"owner": owner, "epoch": epoch, "lagMs": lag_ms, "mode": mode});
    shown["properties"]["steadfast"]["replication"] = replication;
}

/// Rejects a change that would not be in both regions, if `require_sync` is set.
pub(crate) fn check(home: &dyn JobHome, method: &Method) -> Result<(), SchedulerError> {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    if is_read || !home.requires_sync() || home.replication().mode == "synced" {
        return Ok(());
    }
    Err(SchedulerError::unavailable(
        "STF-7035: the other region does not have everything, and require_sync is set for the region",
    ))
}

/// Checks again after a change: maybe only this region has it.
pub(crate) fn confirm(home: &dyn JobHome, method: &Method) -> Result<(), SchedulerError> {
    check(home, method).map_err(|_| {
        SchedulerError::unavailable(
            "STF-7036: the change was made here, but it is not certain that the other region \
             has it, and require_sync is set for the region; look before you repeat it",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestHome {
        mode: &'static str,
        requires_sync: bool,
    }

    #[async_trait]
    impl JobHome for TestHome {
        fn name(&self) -> &'static str {
            "a"
        }

        fn is_owner(&self) -> bool {
            true
        }

        fn replication(&self) -> Replication {
            Replication {
                owner: "a".to_owned(),
                epoch: 1,
                lag_ms: 0,
                mode: self.mode.to_owned(),
            }
        }

        fn requires_sync(&self) -> bool {
            self.requires_sync
        }

        async fn forward(&self, _: Bytes, _: bool) -> Option<Bytes> {
            None
        }

        fn jobs(&self) -> &JobClient {
            unreachable!("no test reads jobs")
        }

        fn copies(&self) -> Option<JobClient> {
            None
        }
    }

    #[test]
    fn places_are_shown_in_one_spelling() {
        let atlas = RegionMap::default();
        assert_eq!(place(&atlas, "westus").unwrap(), "West US");
        assert_eq!(place(&atlas, "Atlantis").unwrap_err().status, 400);
    }

    #[test]
    fn a_change_that_one_region_has_is_not_confirmed() {
        let kept = |mode, requires_sync| TestHome {
            mode,
            requires_sync,
        };
        let alone = kept("degraded", true);
        let refused = confirm(&alone, &Method::PUT).unwrap_err();
        assert_eq!(refused.status, 503);
        assert!(refused.message.starts_with("STF-7036"));
        assert!(confirm(&alone, &Method::GET).is_ok());
        assert!(confirm(&kept("synced", true), &Method::PUT).is_ok());
        assert!(confirm(&kept("degraded", false), &Method::PUT).is_ok());
    }
}
