//! Locks that an orchestration holds.

use std::collections::BTreeSet;

use super::context::Context;
use super::replay_state::{ResultFuture, ResultKey};
use super::section::{CriticalSectionError, State};
use crate::action::ActionKind;
use crate::event::{LockRequest, UnlockRequest};
use crate::failure::FailureDetails;
use crate::id::EntityId;

impl Context {
    /// Locks entities: no other caller's operations run on them until the section is
    /// dropped or the orchestration ends.
    pub async fn lock<'a>(
        &self,
        entities: impl IntoIterator<Item = &'a EntityId>,
    ) -> Result<SectionGuard, FailureDetails> {
        let set = entities.into_iter().map(ToString::to_string).collect();
        enter(self, set).await
    }
}

/// Locks that are held. Dropping it releases them.
#[must_use = "the locks are released when it is dropped"]
pub struct SectionGuard {
    context: Context,
    id: String,
    set: Vec<String>,
}

/// Requests the locks and waits for all of them.
async fn enter(context: &Context, mut set: Vec<String>) -> Result<SectionGuard, FailureDetails> {
    set.sort_unstable();
    set.dedup();
    let id = {
        let mut shared = context.shared.lock();
        if !matches!(shared.section, State::Free) {
            return Err(CriticalSectionError::Nested.into());
        }
        if set.is_empty() {
            return Err(CriticalSectionError::EmptySet.into());
        }
        let id = shared.guid();
        let deed = ActionKind::Lock(LockRequest {
            section: id.clone(),
            set: set.clone(),
            ..LockRequest::default()
        });
        shared.request_action(deed);
        shared.section = State::Entering;
        id
    };
    ResultFuture::new(&context.shared, ResultKey::Request(id.clone())).await?;
    context.shared.lock().section = State::Inside {
        set: set.clone(),
        busy: BTreeSet::new(),
    };
    Ok(SectionGuard {
        context: context.clone(),
        id,
        set,
    })
}

impl Drop for SectionGuard {
    fn drop(&mut self) {
        let mut shared = self.context.shared.lock();
        shared.section = State::Free;
        for target in std::mem::take(&mut self.set) {
            let section = self.id.clone();
            shared.request_action(ActionKind::Unlock(UnlockRequest {
                section,
                target,
                ..UnlockRequest::default()
            }));
        }
    }
}
