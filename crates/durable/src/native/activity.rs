//! What an activity works with.

/// Where an activity was asked for. An activity may do whatever it likes; it may be
/// run again if its worker dies before its result is recorded.
#[derive(Clone, Debug)]
pub struct ActivityContext {
    pub(super) instance: String,
    pub(super) execution: String,
    pub(super) id: i32,
}

impl ActivityContext {
    /// The orchestration that asked for it.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The same whenever this activity is run again, and for no other: use it to make
    /// outside calls idempotent.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.instance, self.execution, self.id)
    }
}
