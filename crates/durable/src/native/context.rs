//! The context of an orchestration.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::payload::{from_json, to_json};
use super::replay_state::{ReplayState, ResultFuture, ResultKey};
use crate::action::ActionKind;
use crate::event::EntityOperation;
use crate::failure::FailureDetails;
use crate::id::EntityId;
use crate::moment::Moment;

/// The context of an orchestration: everything that it may await comes from here. Clones
/// share one state.
#[derive(Clone)]
pub struct Context {
    pub(super) shared: Arc<Mutex<ReplayState>>,
}

impl Context {
    /// The id of the instance.
    pub fn instance(&self) -> String {
        self.shared.lock().instance.clone()
    }

    /// The id of the instance that started this one as its child.
    pub fn parent(&self) -> Option<String> {
        self.shared.lock().parent.clone()
    }

    /// The name under which the orchestration is registered.
    pub fn name(&self) -> String {
        self.shared.lock().name.clone()
    }

    /// The version that it was started with. Changed code may check it and follow the older
    /// behaviour.
    pub fn version(&self) -> Option<String> {
        self.shared.lock().version.clone()
    }

    /// The time of this turn, the same in every replay.
    pub fn now(&self) -> Moment {
        self.shared.lock().now
    }

    /// Whether the code replays the history. For logs only: the behaviour of an orchestration
    /// must not depend on it.
    pub fn is_replaying(&self) -> bool {
        self.shared.lock().is_replaying
    }

    /// A new id, the same in every replay.
    pub fn guid(&self) -> String {
        self.shared.lock().guid()
    }

    /// A random number, the same in every replay.
    pub fn random(&self) -> u64 {
        let id = self.guid().replace('-', "");
        u64::from_str_radix(&id[..16], 16).unwrap_or_default()
    }

    /// Sets the custom status that clients see.
    pub fn set_status<T: Serialize + ?Sized>(&self, status: &T) -> Result<(), FailureDetails> {
        self.shared.lock().custom_status = to_json(status)?;
        Ok(())
    }

    /// Waits for a while.
    pub async fn sleep(&self, time: Duration) {
        let now = self.now();
        let nanos = u64::from(now.nanos) + u64::from(time.subsec_nanos());
        let seconds = now.seconds.saturating_add_unsigned(time.as_secs());
        let until = Moment {
            seconds: seconds.saturating_add((nanos / 1_000_000_000) as i64),
            nanos: (nanos % 1_000_000_000) as u32,
        };
        self.until(until).await;
    }

    /// Waits until a moment.
    pub async fn until(&self, moment: Moment) {
        let id = self.shared.lock().request_action(ActionKind::Timer(moment));
        // A timer has no other outcome than that it fires.
        let _ = ResultFuture::new(&self.shared, ResultKey::Action(id)).await;
    }

    /// Waits for an external event. Names are compared without regard to case; events that
    /// arrive before the wait are kept.
    pub async fn event<T: DeserializeOwned>(&self, name: &str) -> Result<T, FailureDetails> {
        let tag = self.shared.lock().expect(name);
        let input = ResultFuture::new(&self.shared, tag).await?;
        from_json(input.as_deref())
    }

    /// Raises an event at another orchestration.
    pub fn raise<T: Serialize + ?Sized>(
        &self,
        instance: &str,
        name: &str,
        input: &T,
    ) -> Result<(), FailureDetails> {
        let deed = ActionKind::Send {
            instance: instance.to_owned(),
            name: name.to_owned(),
            input: to_json(input)?,
        };
        self.shared.lock().request_action(deed);
        Ok(())
    }

    /// Sends an operation to an entity, and does not wait.
    pub fn signal<I: Serialize + ?Sized>(
        &self,
        entity: &EntityId,
        operation: &str,
        input: &I,
    ) -> Result<(), FailureDetails> {
        self.signal_at(entity, operation, input, None)
    }

    /// Sends an operation to an entity, to run not before a moment.
    pub fn signal_at<I: Serialize + ?Sized>(
        &self,
        entity: &EntityId,
        operation: &str,
        input: &I,
        moment: Option<Moment>,
    ) -> Result<(), FailureDetails> {
        self.signal_raw(EntityOperation {
            name: operation.to_owned(),
            input: to_json(input)?,
            scheduled: moment,
            target: entity.to_string(),
            ..EntityOperation::default()
        })
    }

    pub(super) fn signal_raw(&self, operation: EntityOperation) -> Result<(), FailureDetails> {
        let mut shared = self.shared.lock();
        shared.section.check_signal(&operation.target)?;
        let request = shared.guid();
        shared.request_action(ActionKind::Signal(EntityOperation {
            request,
            ..operation
        }));
        Ok(())
    }

    /// Calls an operation of an entity and waits for its result. The call starts when it is
    /// first awaited.
    pub fn call<I: Serialize + ?Sized, O: DeserializeOwned>(
        &self,
        entity: &EntityId,
        operation: &str,
        input: &I,
    ) -> impl Future<Output = Result<O, FailureDetails>> + use<I, O> {
        let operation = to_json(input).map(|input| EntityOperation {
            name: operation.to_owned(),
            input,
            target: entity.to_string(),
            ..EntityOperation::default()
        });
        let context = self.clone();
        async move { from_json(context.call_raw(operation?).await?.as_deref()) }
    }

    pub(super) fn call_raw(
        &self,
        operation: EntityOperation,
    ) -> impl Future<Output = Result<Option<String>, FailureDetails>> + Send + use<> {
        let context = self.clone();
        async move {
            let target = operation.target.clone();
            let request = context.begin_call(operation)?;
            let outcome = ResultFuture::new(&context.shared, ResultKey::Request(request)).await;
            context.shared.lock().section.end_call(&target);
            outcome
        }
    }

    fn begin_call(&self, operation: EntityOperation) -> Result<String, FailureDetails> {
        let mut shared = self.shared.lock();
        shared.section.begin_call(&operation.target)?;
        let request = shared.guid();
        shared.request_action(ActionKind::Call(EntityOperation {
            request: request.clone(),
            ..operation
        }));
        Ok(request)
    }

    /// Starts again with a new input and an empty history: `return` the result of this
    /// method. Events that were not waited for stay.
    pub fn continue_as_new<I: Serialize + ?Sized, O>(
        &self,
        input: &I,
    ) -> Result<O, FailureDetails> {
        self.shared.lock().renewal = Some(to_json(input)?);
        Err(FailureDetails::lasting(
            "ContinuedAsNew",
            "the orchestration begins again",
        ))
    }
}
