//! The rules of critical sections.

use std::collections::BTreeSet;
use std::fmt;

use crate::failure::FailureDetails;

/// A violation of the rules of critical sections. The orchestration receives it as a
/// [`FailureDetails`] whose kind is the name here, and the section stays usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalSectionError {
    /// The orchestration is in a section already.
    Nested,
    /// A child must not be started while locks are held.
    SubOrchestration,
    /// The entity is not among the locked ones.
    NotLocked,
    /// An earlier call to the entity has no answer yet.
    CallPending,
    /// A locked entity must not be signalled.
    SignalLocked,
    /// The locks are not acquired yet: await the section first.
    AcquirePending,
    /// The set of entities is empty.
    EmptySet,
}

impl CriticalSectionError {
    /// The kind of the failure.
    pub fn kind(self) -> String {
        format!("CriticalSection::{self:?}")
    }

    /// Whether a failure is this violation.
    pub fn is(self, failure: &FailureDetails) -> bool {
        failure.kind == self.kind()
    }
}

impl fmt::Display for CriticalSectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nested => "a critical section cannot be entered inside another one",
            Self::SubOrchestration => "a child cannot be started while locks are held",
            Self::NotLocked => {
                "an entity that is not locked cannot be called in a critical section"
            }
            Self::CallPending => "a locked entity takes one call at a time: await the first",
            Self::SignalLocked => "a locked entity cannot be signalled: call it",
            Self::AcquirePending => "entities cannot be called before the locks are acquired",
            Self::EmptySet => "a critical section needs at least one entity",
        })
    }
}

impl From<CriticalSectionError> for FailureDetails {
    fn from(violation: CriticalSectionError) -> Self {
        Self::lasting(&violation.kind(), violation.to_string())
    }
}

/// The state of an orchestration's critical section.
pub(super) enum State {
    Free,
    /// The locks were requested.
    Entering,
    Inside {
        set: Vec<String>,
        /// Entities with a call under way.
        busy: BTreeSet<String>,
    },
}

impl State {
    pub(super) fn check_signal(&self, entity: &str) -> Result<(), CriticalSectionError> {
        match self {
            Self::Inside { set, .. } if set.iter().any(|locked| locked == entity) => {
                Err(CriticalSectionError::SignalLocked)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_child(&self) -> Result<(), CriticalSectionError> {
        match self {
            Self::Free => Ok(()),
            _ => Err(CriticalSectionError::SubOrchestration),
        }
    }

    pub(super) fn begin_call(&mut self, entity: &str) -> Result<(), CriticalSectionError> {
        match self {
            Self::Free => Ok(()),
            Self::Entering => Err(CriticalSectionError::AcquirePending),
            Self::Inside { set, busy } => {
                if !set.iter().any(|locked| locked == entity) {
                    return Err(CriticalSectionError::NotLocked);
                }
                if busy.insert(entity.to_owned()) {
                    Ok(())
                } else {
                    Err(CriticalSectionError::CallPending)
                }
            }
        }
    }

    pub(super) fn end_call(&mut self, entity: &str) {
        if let Self::Inside { busy, .. } = self {
            busy.remove(entity);
        }
    }
}
