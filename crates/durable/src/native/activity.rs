//! The context of an activity.

/// The orchestration that scheduled an activity. An activity may do any I/O; it may run
/// again if its worker dies before its result is recorded.
#[derive(Clone, Debug)]
pub struct ActivityContext {
    pub(super) instance: String,
    pub(super) execution: String,
    pub(super) id: i32,
}

impl ActivityContext {
    /// The orchestration that scheduled it.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// A unique key that stays the same when this activity runs again: use it to make
    /// external calls idempotent.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.instance, self.execution, self.id)
    }
}
