//! Failures of user code.

use std::collections::BTreeMap;

use steadfast_collections::schema::Record;

/// A failure as the worker reported it.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Failure", closed)]
pub struct FailureDetails {
    /// The type of the error in the worker's language.
    #[n(0)]
    pub kind: String,
    #[n(1)]
    pub message: String,
    #[n(2)]
    pub stack: Option<String>,
    /// A retry cannot succeed.
    #[n(3)]
    pub is_final: bool,
    /// Details from the worker, as JSON texts.
    #[n(4)]
    pub properties: BTreeMap<String, String>,
    /// Its cause: none, or one failure.
    #[n(5)]
    pub inner: Vec<FailureDetails>,
}

impl FailureDetails {
    /// A failure found by this crate.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same, but not retriable.
    pub fn lasting(kind: &str, message: impl Into<String>) -> Self {
        Self {
            is_final: true,
            ..Self::new(kind, message)
        }
    }

    /// Whether the worker has no activity of that name, by the error of its SDK.
    pub(crate) fn is_unknown_activity(&self, name: &str) -> bool {
        let is_kind = match self.kind_without_module() {
            // Python and JavaScript, .NET, Go, and our own workers.
            "ActivityNotRegisteredError"
            | "ActivityTaskNotFound"
            | "TaskActivityNotRegistered"
            | "UnknownActivity" => true,
            // Java.
            "java.lang.IllegalStateException" => {
                self.says("No activity task named '", "' is registered.")
            }
            _ => false,
        };
        is_kind && self.names(name)
    }

    /// Whether the worker has no orchestration of that name, by the error of its SDK. The
    /// failure of a child does not count: it has the name of the child.
    pub(crate) fn is_unknown_orchestration(&self, name: &str) -> bool {
        let is_kind = match self.kind_without_module() {
            // Python and JavaScript, .NET, and our own workers.
            "OrchestratorNotRegisteredError"
            | "OrchestratorTaskNotFound"
            | "UnknownOrchestration" => true,
            // Go, whose error has no type of its own. Java's error cannot be recognized.
            "*errors.errorString" => self.says("orchestrator named '", "' is not registered"),
            _ => false,
        };
        is_kind && self.names(name)
    }

    /// The kind without the module prefix that Python adds.
    fn kind_without_module(&self) -> &str {
        let kind = self.kind.as_str();
        kind.strip_prefix("durabletask.worker.").unwrap_or(kind)
    }

    fn says(&self, from: &str, to: &str) -> bool {
        self.message.starts_with(from) && self.message.ends_with(to)
    }

    /// Whether the message contains the name in quotes.
    fn names(&self, name: &str) -> bool {
        let quoted = [format!("'{name}'"), format!("{name:?}")];
        quoted.iter().any(|quoted| self.message.contains(quoted))
    }
}

impl FailureDetails {
    /// Approximate bytes in storage.
    pub fn size(&self) -> usize {
        let texts = [self.kind.len(), self.message.len()];
        let stack = self.stack.as_ref().map_or(0, String::len);
        let properties = self.properties.iter();
        let properties: usize = properties
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let inner: usize = self.inner.iter().map(Self::size).sum();
        texts.iter().sum::<usize>() + stack + properties + inner
    }
}

impl std::fmt::Display for FailureDetails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for FailureDetails {}

impl From<crate::error::Error> for FailureDetails {
    fn from(error: crate::error::Error) -> Self {
        Self::new(error.code().0, error.message())
    }
}
