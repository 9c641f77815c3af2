//! The regions, and the role of this server in a pair.

use steadfast_jobs::region::{GeoRegion, RegionError, RegionMap};

use super::declarations::DeclaredRegion;
use super::error::{Error, ErrorKind};

/// The known regions and the role of this server.
#[derive(Clone, Debug, Default)]
pub struct RegionConfig {
    /// All regions.
    pub atlas: RegionMap,
    /// The role of this server in a pair, if any.
    pub role: Option<RegionRole>,
}

/// The role of a server in a region pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionRole {
    /// It only votes.
    Witness,
    /// It keeps the jobs of the pair.
    Region {
        /// The region of the server.
        region: String,
        /// The other region.
        pair: String,
        /// Host and port of the server in the other region.
        address: String,
        /// Host and port of the witness.
        witness: Option<String>,
        /// Whether writes fail while they cannot be replicated to the other region.
        requires_sync: bool,
    },
}

impl RegionConfig {
    /// Reads and checks what is declared and set.
    pub(super) fn new(
        declared: &[DeclaredRegion],
        region: Option<&str>,
        address: Option<String>,
        witness: Option<String>,
    ) -> Result<Self, Error> {
        let regions = declared.iter().map(|declared| GeoRegion {
            name: declared.name.clone(),
            geography: declared.geography.clone(),
            pair: declared.pair.clone(),
        });
        let atlas = RegionMap::with(regions).map_err(|misplaced| {
            let why = misplaced.to_string();
            Error::new(match misplaced {
                RegionError::OtherGeography { .. } => ErrorKind::OtherGeography { why },
                RegionError::Unknown { .. } => ErrorKind::Region { why },
            })
        })?;
        let role = match region {
            None => None,
            Some("witness") => Some(RegionRole::Witness),
            Some(name) => Some(role(&atlas, declared, name, address, witness)?),
        };
        Ok(Self { atlas, role })
    }
}

impl RegionConfig {
    /// The reason why a job collection cannot have its home in this location.
    pub(super) fn location_error(&self, location: Option<&str>) -> Option<String> {
        let location = location?;
        let Some(region) = self.atlas.find(location) else {
            return Some(format!("there is no region '{location}'"));
        };
        match &self.role {
            Some(RegionRole::Region {
                region: own, pair, ..
            }) if region.name != *own && region.name != *pair => Some(format!(
                "{location} is not kept here: this server keeps {own} and {pair}"
            )),
            _ => None,
        }
    }
}

fn role(
    atlas: &RegionMap,
    declared: &[DeclaredRegion],
    name: &str,
    address: Option<String>,
    witness: Option<String>,
) -> Result<RegionRole, Error> {
    let wrong = |why: String| Error::new(ErrorKind::Region { why });
    let find = |name: &str| {
        let name = name.to_owned();
        let unknown = || wrong(RegionError::Unknown { name: name.clone() }.to_string());
        atlas.find(&name).ok_or_else(unknown)
    };
    let region = find(name)?;
    let alone = || wrong(format!("{} has no pair: declare one", region.name));
    let pair = find(region.pair.as_deref().ok_or_else(alone)?)?;
    let Some(address) = address else {
        return Err(wrong(format!(
            "jobs.pair is missing: where the server in {} is reached",
            pair.name
        )));
    };
    let says = |what: fn(&DeclaredRegion) -> bool, name: &str| {
        let found = declared.iter().find(|declared| declared.name == name);
        found.is_some_and(what)
    };
    let both = [&region.name, &pair.name];
    Ok(RegionRole::Region {
        requires_sync: both.iter().any(|name| says(|own| own.require_sync, name)),
        region: region.name.clone(),
        pair: pair.name.clone(),
        address,
        witness,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, geography: &str, pair: &str) -> DeclaredRegion {
        DeclaredRegion {
            name: name.to_owned(),
            geography: geography.to_owned(),
            pair: Some(pair.to_owned()),
            require_sync: name == "Jena",
        }
    }

    #[test]
    fn both_servers_of_a_pair_know_one_another_and_what_they_require() {
        let own = [
            declared("Bremen", "Germany", "Jena"),
            declared("Jena", "Germany", "Bremen"),
        ];
        for name in ["bremen", "Jena"] {
            let regions = RegionConfig::new(&own, Some(name), Some("x:1".to_owned()), None);
            let Some(RegionRole::Region {
                region,
                pair,
                requires_sync,
                ..
            }) = regions.unwrap().role
            else {
                panic!("it is a region");
            };
            let mut both = [region, pair];
            both.sort();
            assert_eq!(both, ["Bremen", "Jena"]);
            assert!(requires_sync);
        }
    }

    #[test]
    fn collections_have_their_home_in_the_pair() {
        let address = Some("x:1".to_owned());
        let regions = RegionConfig::new(&[], Some("West US"), address, None).unwrap();
        for here in [None, Some("westus"), Some("East US")] {
            assert_eq!(regions.location_error(here), None);
        }
        assert!(regions.location_error(Some("Atlantis")).is_some());
        assert!(regions.location_error(Some("North Europe")).is_some());
        assert!(
            RegionConfig::default()
                .location_error(Some("North Europe"))
                .is_none()
        );
    }

    #[test]
    fn jobs_49_a_pair_across_geographies_is_a_mistake_of_its_own() {
        let own = [declared("Bremen", "Germany", "West Europe")];
        let error = RegionConfig::new(&own, None, None, None).unwrap_err();
        assert_eq!(error.code().0, "STF-7030");
        let address = || Some("x:1".to_owned());
        for (name, address) in [
            ("Atlantis", address()),
            ("West US 3", address()),
            ("West US", None),
        ] {
            let error = RegionConfig::new(&[], Some(name), address, None).unwrap_err();
            assert_eq!(error.code().0, "STF-7031", "{name}");
        }
    }
}
