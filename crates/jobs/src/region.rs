//! Regions of the world, in geographies and pairs.
//!
//! Azure's regions are built in; others can be added. Data of a region may be copied
//! to its pair, so both are in one geography.

use std::collections::BTreeMap;
use std::fmt;

/// A region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeoRegion {
    /// The display name: `West US`.
    pub name: String,
    pub geography: String,
    /// The failover region.
    pub pair: Option<String>,
}

/// All regions, by their normalised names: lower case, without spaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionMap(BTreeMap<String, GeoRegion>);

/// An invalid region or pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegionError {
    /// Its pair is in another geography.
    OtherGeography { region: GeoRegion, pair: GeoRegion },
    /// There is no such region.
    Unknown { name: String },
}

/// Geographies with their region pairs.
const AZURE: &[(&str, &[(&str, &str)])] = &[
    (
        "United States",
        &[
            ("East US", "West US"),
            ("East US 2", "Central US"),
            ("North Central US", "South Central US"),
            ("West US 2", "West Central US"),
        ],
    ),
    ("Canada", &[("Canada Central", "Canada East")]),
    ("Brazil", &[("Brazil South", "Brazil Southeast")]),
    ("Europe", &[("North Europe", "West Europe")]),
    ("France", &[("France Central", "France South")]),
    ("Germany", &[("Germany West Central", "Germany North")]),
    ("Norway", &[("Norway East", "Norway West")]),
    ("Sweden", &[("Sweden Central", "Sweden South")]),
    ("Switzerland", &[("Switzerland North", "Switzerland West")]),
    ("United Kingdom", &[("UK South", "UK West")]),
    ("Asia Pacific", &[("East Asia", "Southeast Asia")]),
    (
        "Australia",
        &[
            ("Australia East", "Australia Southeast"),
            ("Australia Central", "Australia Central 2"),
        ],
    ),
    ("India", &[("Central India", "South India")]),
    ("Japan", &[("Japan East", "Japan West")]),
    ("Korea", &[("Korea Central", "Korea South")]),
    (
        "South Africa",
        &[("South Africa North", "South Africa West")],
    ),
    ("United Arab Emirates", &[("UAE North", "UAE Central")]),
    ("Azure Government", &[("US Gov Virginia", "US Gov Texas")]),
    (
        "China",
        &[
            ("China North", "China East"),
            ("China North 2", "China East 2"),
        ],
    ),
];

/// Azure regions without a pair, or with a pair that is not mutual.
const SINGLE: &[(&str, &str)] = &[
    ("United States", "West US 3"),
    ("India", "West India"),
    ("Azure Government", "US Gov Arizona"),
];

impl Default for RegionMap {
    fn default() -> Self {
        let region = |geography: &str, name: &str, pair: Option<&str>| GeoRegion {
            name: name.to_owned(),
            geography: geography.to_owned(),
            pair: pair.map(str::to_owned),
        };
        let mut all = Vec::new();
        for (geography, pairs) in AZURE {
            for (one, other) in *pairs {
                all.push(region(geography, one, Some(other)));
                all.push(region(geography, other, Some(one)));
            }
        }
        let single = SINGLE.iter();
        all.extend(single.map(|(geography, name)| region(geography, name, None)));
        let all = all.into_iter();
        Self(all.map(|region| (key(&region.name), region)).collect())
    }
}

impl RegionMap {
    /// Azure's regions and the given ones, which replace those of the same name. A pair
    /// without a pair of its own is paired in return.
    pub fn with(regions: impl IntoIterator<Item = GeoRegion>) -> Result<Self, RegionError> {
        let mut atlas = Self::default();
        let mut declared = Vec::new();
        for region in regions {
            declared.push(key(&region.name));
            atlas.0.insert(key(&region.name), region);
        }
        for own in declared {
            let Some(region) = atlas.0.get(&own).cloned() else {
                continue;
            };
            let Some(name) = &region.pair else {
                continue;
            };
            let unknown = || RegionError::Unknown { name: name.clone() };
            let pair = atlas.0.get_mut(&key(name)).ok_or_else(unknown)?;
            if pair.geography != region.geography {
                let pair = pair.clone();
                return Err(RegionError::OtherGeography { region, pair });
            }
            pair.pair.get_or_insert(region.name);
        }
        Ok(atlas)
    }

    /// The region of that name: `West US`, `westus`.
    pub fn find(&self, name: &str) -> Option<&GeoRegion> {
        self.0.get(&key(name))
    }
}

/// The normalised name: lower case, without spaces.
fn key(name: &str) -> String {
    let kept = name.chars().filter(|c| !c.is_whitespace());
    kept.flat_map(char::to_lowercase).collect()
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGeography { region, pair } => write!(
                f,
                "{} is in {} and its pair {} in {}: data would leave the geography",
                region.name, region.geography, pair.name, pair.geography
            ),
            Self::Unknown { name } => write!(
                f,
                "there is no region '{name}': declare it as [[region]] with its geography"
            ),
        }
    }
}

impl std::error::Error for RegionError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str, geography: &str, pair: Option<&str>) -> GeoRegion {
        GeoRegion {
            name: name.to_owned(),
            geography: geography.to_owned(),
            pair: pair.map(str::to_owned),
        }
    }

    #[test]
    fn regions_are_found_in_either_spelling_and_shown_in_one() {
        let atlas = RegionMap::default();
        for spelling in ["West US", "westus", "WESTUS", "west us"] {
            assert_eq!(atlas.find(spelling).unwrap().name, "West US");
        }
        assert_eq!(atlas.find("Atlantis"), None);
        // The pair of the seed.
        let south = atlas.find("southcentralus").unwrap();
        assert_eq!(south.pair.as_deref(), Some("North Central US"));
    }

    #[test]
    fn every_pair_of_azure_is_in_one_geography_and_mutual() {
        let atlas = RegionMap::default();
        for region in atlas.0.values() {
            let Some(pair) = &region.pair else { continue };
            let pair = atlas.find(pair).unwrap();
            assert_eq!(pair.geography, region.geography);
            assert_eq!(pair.pair.as_ref(), Some(&region.name));
        }
    }

    #[test]
    fn jobs_49_a_pair_across_geographies_is_refused() {
        let own = [
            region("Here", "Inland", Some("There")),
            region("There", "Abroad", None),
        ];
        assert!(matches!(
            RegionMap::with(own),
            Err(RegionError::OtherGeography { .. })
        ));
        let stray = [region("West US", "United States", Some("North Europe"))];
        assert!(matches!(
            RegionMap::with(stray),
            Err(RegionError::OtherGeography { .. })
        ));
        let unknown = [region("Here", "Inland", Some("Nowhere"))];
        assert!(matches!(
            RegionMap::with(unknown),
            Err(RegionError::Unknown { .. })
        ));
        let own = [
            region("Here", "Inland", Some("There")),
            region("There", "Inland", None),
        ];
        let atlas = RegionMap::with(own).unwrap();
        assert_eq!(atlas.find("there").unwrap().pair.as_deref(), Some("Here"));
    }
}
