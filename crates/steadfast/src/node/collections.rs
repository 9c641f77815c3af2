//! The REST backend of collections on all nodes.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_collections::{Scheme, Service, SlotKey};
use steadfast_protocols::http::Problem;
use steadfast_protocols::rest::{
    Collections, Described, Found, Page, Place, Range, SlotScheme, Step,
};

use super::inner::Inner;
use super::lending::{Done, Errand, service, shown};

/// Routes REST requests for collections to their owner.
pub(super) struct Shelves(pub(super) Arc<Inner>);

#[async_trait]
impl Collections for Shelves {
    async fn create_service(
        &self,
        name: &str,
        scheme: SlotScheme,
        is_volatile: bool,
    ) -> Result<(), Problem> {
        let name = name.to_owned();
        let home = self.0.home_of(&name);
        let errand = Errand::Create { name, scheme }.of(is_volatile);
        self.0.run(home, errand).await.map(drop)
    }

    async fn describe(&self, place: Place) -> Result<Described, Problem> {
        let found = self.find(&place.service).await?;
        let service = found.ok_or_else(|| missing(&place))?;
        let mut described = Described {
            scheme: shown(&service.scheme),
            volatile: service.is_volatile,
            incarnation: None,
            copies: None,
        };
        let is_one = place.slot.is_some() || service.scheme == Scheme::Singleton;
        if service.is_volatile && is_one {
            let slot = slot_of(&service, place.slot.as_deref())?;
            let errand = Errand::Life {
                name: service.name.clone(),
                scheme: described.scheme.clone(),
                slot,
            };
            let Done::Life {
                incarnation,
                copies,
            } = self.run(&service, slot, errand).await?
            else {
                return Err(surprised());
            };
            described.incarnation = Some(incarnation);
            described.copies = Some(copies);
        }
        Ok(described)
    }

    async fn transact(&self, place: Place, steps: Vec<Step>) -> Result<Vec<Found>, Problem> {
        let writes = steps.iter().any(|step| !matches!(step, Step::Get { .. }));
        let service = match self.find(&place.service).await? {
            Some(service) => service,
            // The first write creates a service with one slot, if no slot is named.
            None if writes && place.slot.is_none() => {
                self.create_service(&place.service, SlotScheme::Singleton, false)
                    .await?;
                let found = self.find(&place.service).await?;
                found.ok_or_else(|| missing(&place))?
            }
            None => return Err(missing(&place)),
        };
        let slot = slot_of(&service, place.slot.as_deref())?;
        let errand = Errand::Transact {
            scheme: shown(&service.scheme),
            name: service.name.clone(),
            slot,
            steps,
        };
        match self.run(&service, slot, errand).await? {
            Done::Steps(found) => Ok(found),
            _ => Err(surprised()),
        }
    }

    async fn scan(&self, place: Place, collection: &str, range: Range) -> Result<Page, Problem> {
        let found = self.find(&place.service).await?;
        let service = found.ok_or_else(|| missing(&place))?;
        let slot = slot_of(&service, place.slot.as_deref())?;
        let errand = Errand::Scan {
            scheme: shown(&service.scheme),
            name: service.name.clone(),
            slot,
            collection: collection.to_owned(),
            range,
        };
        match self.run(&service, slot, errand).await? {
            Done::Page(page) => Ok(page),
            _ => Err(surprised()),
        }
    }
}

impl Shelves {
    /// The service of this name, if there is one.
    async fn find(&self, name: &str) -> Result<Option<Service>, Problem> {
        let name = name.to_owned();
        let home = self.0.home_of(&name);
        match self
            .0
            .run(home, Errand::Describe { name: name.clone() })
            .await?
        {
            Done::Service(found) => Ok(found.map(|scheme| service(name, scheme, false))),
            Done::Volatile(scheme) => Ok(Some(service(name, scheme, true))),
            _ => Err(surprised()),
        }
    }

    async fn run(&self, service: &Service, slot: u32, errand: Errand) -> Result<Done, Problem> {
        let partition = service.partition(slot, self.0.partitions());
        let errand = errand.of(service.is_volatile);
        self.0.run(partition, errand).await
    }
}

/// Resolves a slot name according to the scheme of its service.
fn slot_of(service: &Service, text: Option<&str>) -> Result<u32, Problem> {
    let number = text.and_then(|text| text.parse().ok());
    let key = match (&service.scheme, text, number) {
        (Scheme::Int64Range { .. }, _, Some(number)) => SlotKey::Number(number),
        (_, Some(name), _) => SlotKey::Name(name),
        (_, None, _) => SlotKey::Only,
    };
    let slot = service.slot(key);
    slot.map_err(|error| Problem::new(error.code(), error.to_string()))
}

fn missing(place: &Place) -> Problem {
    Problem::not_found(format!("there is no service '{}'", place.service))
}

fn surprised() -> Problem {
    Problem::internal("the owner sent a response that does not match the request")
}
