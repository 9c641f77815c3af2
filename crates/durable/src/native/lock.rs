//! Locks that an orchestration holds.

use std::collections::BTreeSet;

use super::context::Context;
use super::section::{CriticalSection, State};
use super::shared::{Tag, Wait};
use crate::action::Deed;
use crate::event::{LockRequest, Unlock};
use crate::failure::Failure;
use crate::id::EntityId;

impl Context {
    /// Locks entities: no other caller's operations run on them until the section is
    /// dropped or the orchestration ends.
    pub async fn lock<'a>(
        &self,
        entities: impl IntoIterator<Item = &'a EntityId>,
    ) -> Result<Section, Failure> {
        let set = entities.into_iter().map(ToString::to_string).collect();
        enter(self, set).await
    }
}

/// Locks that are held. Dropping it releases them.
#[must_use = "the locks are released when it is dropped"]
pub struct Section {
    context: Context,
    id: String,
    set: Vec<String>,
}

/// Requests the locks and waits for all of them.
async fn enter(context: &Context, mut set: Vec<String>) -> Result<Section, Failure> {
    set.sort_unstable();
    set.dedup();
    let id = {
        let mut shared = context.shared.lock();
        if !matches!(shared.section, State::Free) {
            return Err(CriticalSection::Nested.into());
        }
        if set.is_empty() {
            return Err(CriticalSection::EmptySet.into());
        }
        let id = shared.guid();
        let deed = Deed::Lock(LockRequest {
            section: id.clone(),
            set: set.clone(),
            ..LockRequest::default()
        });
        shared.want(deed);
        shared.section = State::Entering;
        id
    };
    Wait::new(&context.shared, Tag::Request(id.clone())).await?;
    context.shared.lock().section = State::Inside {
        set: set.clone(),
        busy: BTreeSet::new(),
    };
    Ok(Section {
        context: context.clone(),
        id,
        set,
    })
}

impl Drop for Section {
    fn drop(&mut self) {
        let mut shared = self.context.shared.lock();
        shared.section = State::Free;
        for target in std::mem::take(&mut self.set) {
            let section = self.id.clone();
            shared.want(Deed::Unlock(Unlock {
                section,
                target,
                ..Unlock::default()
            }));
        }
    }
}
