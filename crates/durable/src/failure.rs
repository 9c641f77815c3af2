//! What went wrong in somebody's code.

use std::collections::BTreeMap;

use steadfast_collections::schema::Record;

/// A failure as the worker told it.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Failure {
    /// The type of the error in the worker's language.
    #[n(0)]
    pub kind: String,
    #[n(1)]
    pub message: String,
    #[n(2)]
    pub stack: Option<String>,
    /// Trying again is of no use.
    #[n(3)]
    pub is_final: bool,
    /// What the worker adds, as JSON texts.
    #[n(4)]
    pub properties: BTreeMap<String, String>,
    /// What caused it: nothing, or one failure.
    #[n(5)]
    pub inner: Vec<Failure>,
}

impl Failure {
    /// A failure that we found ourselves.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same, and trying again is of no use.
    pub fn lasting(kind: &str, message: impl Into<String>) -> Self {
        Self {
            is_final: true,
            ..Self::new(kind, message)
        }
    }
}

impl Failure {
    /// About how many bytes it has in storage.
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

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<crate::error::Error> for Failure {
    fn from(error: crate::error::Error) -> Self {
        Self::new(error.code().0, error.message())
    }
}
