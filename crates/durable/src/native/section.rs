//! The rules of critical sections.

use std::collections::BTreeSet;
use std::fmt;

use crate::failure::Failure;

/// A violation of the rules of critical sections. The orchestration receives it as a
/// [`Failure`] whose kind is the name here, and the section stays usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalSection {
    /// There is a section already.
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

impl CriticalSection {
    /// The kind of the failure.
    pub fn kind(self) -> String {
        format!("CriticalSection::{self:?}")
    }

    /// Whether a failure is this violation.
    pub fn is(self, failure: &Failure) -> bool {
        failure.kind == self.kind()
    }
}

impl fmt::Display for CriticalSection {
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

impl From<CriticalSection> for Failure {
    fn from(violation: CriticalSection) -> Self {
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
    pub(super) fn check_signal(&self, entity: &str) -> Result<(), CriticalSection> {
        match self {
            Self::Inside { set, .. } if set.iter().any(|locked| locked == entity) => {
                Err(CriticalSection::SignalLocked)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_child(&self) -> Result<(), CriticalSection> {
        match self {
            Self::Free => Ok(()),
            _ => Err(CriticalSection::SubOrchestration),
        }
    }

    pub(super) fn begin_call(&mut self, entity: &str) -> Result<(), CriticalSection> {
        match self {
            Self::Free => Ok(()),
            Self::Entering => Err(CriticalSection::AcquirePending),
            Self::Inside { set, busy } => {
                if !set.iter().any(|locked| locked == entity) {
                    return Err(CriticalSection::NotLocked);
                }
                match busy.insert(entity.to_owned()) {
                    true => Ok(()),
                    false => Err(CriticalSection::CallPending),
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
