//! The functions that a process registers.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::activity::ActivityContext;
use super::context::Context;
use super::entity::EntityContext;
use super::payload::{BoxFuture, from_json, to_json};
use crate::failure::FailureDetails;
use crate::work::{WorkFilter, WorkFilters};

pub(super) type Outcome = Result<Option<String>, FailureDetails>;
type OrchestrationFunction =
    Arc<dyn Fn(Context, Option<String>) -> BoxFuture<'static, Outcome> + Send + Sync>;
type ActivityFunction =
    Arc<dyn Fn(ActivityContext, Option<String>) -> BoxFuture<'static, Outcome> + Send + Sync>;
pub(super) type EntityFunction =
    Arc<dyn for<'a> Fn(&'a mut EntityContext) -> BoxFuture<'a, Outcome> + Send + Sync>;

/// Named functions. A worker takes work for these names only.
#[derive(Clone, Default)]
pub struct Functions {
    pub(super) orchestrations: HashMap<String, OrchestrationFunction>,
    pub(super) activities: HashMap<String, ActivityFunction>,
    pub(super) entities: HashMap<String, EntityFunction>,
    /// Versions of orchestrations that the code supports; none: all.
    versions: Vec<String>,
}

impl Functions {
    /// No function.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an orchestration: an async function of its context and its input.
    #[must_use]
    pub fn orchestration<I, O, F, R>(mut self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(Context, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O, FailureDetails>> + Send + 'static,
    {
        let run = move |context: Context, input: Option<String>| {
            let function = function.clone();
            let input = from_json::<I>(input.as_deref());
            let begun = input.map(|input| function(context, input));
            Box::pin(async move { to_json(&begun?.await?) }) as BoxFuture<'static, Outcome>
        };
        self.orchestrations.insert(name.to_owned(), Arc::new(run));
        self
    }

    /// Adds an activity: an async function of its context and its input.
    #[must_use]
    pub fn activity<I, O, F, R>(mut self, name: &str, function: F) -> Self
    where
        I: DeserializeOwned + Send,
        O: Serialize,
        F: Fn(ActivityContext, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O, FailureDetails>> + Send + 'static,
    {
        let run = move |context: ActivityContext, input: Option<String>| {
            let input = from_json::<I>(input.as_deref());
            let begun = input.map(|input| function(context, input));
            Box::pin(async move { to_json(&begun?.await?) }) as BoxFuture<'static, Outcome>
        };
        self.activities.insert(name.to_owned(), Arc::new(run));
        self
    }

    /// Adds an entity: a function that is run for every operation.
    #[must_use]
    pub fn entity<F>(mut self, name: &str, function: F) -> Self
    where
        F: for<'a> Fn(
                &'a mut EntityContext,
            ) -> BoxFuture<'a, Result<Option<String>, FailureDetails>>
            + Send
            + Sync
            + 'static,
    {
        self.entities
            .insert(name.to_lowercase(), Arc::new(function));
        self
    }

    /// Takes orchestrations of these versions only, so a new version may run beside an old
    /// one until the last instance of the old one has ended. Orchestrations that were started
    /// without a version have the empty one.
    #[must_use]
    pub fn versions<V: Into<String>>(mut self, versions: impl IntoIterator<Item = V>) -> Self {
        self.versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// Whether no function is registered.
    pub fn is_empty(&self) -> bool {
        self.orchestrations.is_empty() && self.activities.is_empty() && self.entities.is_empty()
    }

    /// Whether this version of this orchestration is registered.
    pub(super) fn knows(&self, name: &str, version: Option<&str>) -> bool {
        let versions = &self.versions;
        let fits = versions.is_empty() || versions.iter().any(|v| v == version.unwrap_or(""));
        fits && self.orchestrations.contains_key(name)
    }

    pub(super) fn filters(&self) -> WorkFilters {
        let filter = |name: &String, versions: &[String]| WorkFilter {
            name: name.clone(),
            versions: versions.to_vec(),
        };
        let orchestrations = self.orchestrations.keys();
        let activities = self.activities.keys();
        WorkFilters {
            orchestrations: orchestrations
                .map(|name| filter(name, &self.versions))
                .collect(),
            activities: activities.map(|name| filter(name, &[])).collect(),
            entities: self.entities.keys().cloned().collect(),
        }
    }
}
