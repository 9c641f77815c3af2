//! Entities as types, and their proxies.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::entity::EntityContext;
use super::functions::Functions;
use super::payload::{BoxFuture, from_json, to_json};
use crate::event::EntityOperation;
use crate::failure::FailureDetails;
use crate::hub::TaskHub;
use crate::id::EntityId;

/// A type whose values are the states of entities; made by `#[entity]`.
pub trait EntityType: Default + Serialize + DeserializeOwned + Send + 'static {
    /// The name of these entities, in lower case.
    const NAME: &'static str;

    /// Runs the operation of a context on the state.
    fn run<'a>(
        &'a mut self,
        context: &'a mut EntityContext,
    ) -> BoxFuture<'a, Result<Option<String>, FailureDetails>>;
}

impl Functions {
    /// Adds the entities of a type.
    #[must_use]
    pub fn entities<E: EntityType>(self) -> Self {
        self.entities_with(|_: &mut E, _: &EntityContext| {})
    }

    /// Adds the entities of a type. Before each operation, `prepare` sets what is not part of
    /// their state, such as a client in a field marked `#[serde(skip)]`.
    #[must_use]
    pub fn entities_with<E: EntityType>(
        self,
        prepare: impl Fn(&mut E, &EntityContext) + Clone + Send + Sync + 'static,
    ) -> Self {
        self.entity(E::NAME, move |context| {
            let prepare = prepare.clone();
            Box::pin(async move {
                let mut entity: E = context.state()?;
                prepare(&mut entity, context);
                let output = entity.run(context).await?;
                if !context.is_settled {
                    context.set_state(&entity)?;
                }
                Ok(output)
            })
        })
    }
}

impl EntityContext {
    /// The output of an operation.
    #[doc(hidden)]
    pub fn output<T: Serialize>(&self, output: &T) -> Result<Option<String>, FailureDetails> {
        to_json(output)
    }

    /// The operation only reads the state.
    #[doc(hidden)]
    pub fn leave_state(&mut self) {
        self.is_settled = true;
    }

    /// Handles an operation that the type does not have. All entities support `delete`.
    #[doc(hidden)]
    pub fn otherwise(&mut self) -> Result<Option<String>, FailureDetails> {
        if self.operation.eq_ignore_ascii_case("delete") {
            self.delete();
            return Ok(None);
        }
        let (operation, entity) = (&self.operation, self.entity.name());
        let message = format!("the entity {entity:?} has no operation {operation:?}");
        Err(FailureDetails::lasting("UnknownOperation", message))
    }
}

/// A caller of entities: an orchestration or a client.
pub trait EntityCaller {
    /// Calls an operation of an entity and waits for its result.
    fn call_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<Option<String>, FailureDetails>>;

    /// Sends an operation to an entity, and does not wait.
    fn signal_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<(), FailureDetails>>;
}

impl EntityCaller for Context {
    fn call_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<Option<String>, FailureDetails>> {
        Box::pin(self.call_raw(operation))
    }

    fn signal_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<(), FailureDetails>> {
        let sent = self.signal_raw(operation);
        Box::pin(async move { sent })
    }
}

impl EntityCaller for TaskHub {
    fn call_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<Option<String>, FailureDetails>> {
        let hub = self.clone();
        Box::pin(async move { hub.call(operation).await? })
    }

    fn signal_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, Result<(), FailureDetails>> {
        let hub = self.clone();
        Box::pin(async move { Ok(hub.signal(operation).await?) })
    }
}

fn operation<I: Serialize>(
    entity: &EntityId,
    name: &str,
    input: &I,
) -> Result<EntityOperation, FailureDetails> {
    Ok(EntityOperation {
        name: name.to_owned(),
        input: to_json(input)?,
        target: entity.to_string(),
        ..EntityOperation::default()
    })
}

/// A call of a proxy.
#[doc(hidden)]
pub fn call_typed<C: EntityCaller, I: Serialize, O: DeserializeOwned>(
    by: &C,
    entity: &EntityId,
    name: &str,
    input: &I,
) -> impl Future<Output = Result<O, FailureDetails>> + Send + use<C, I, O> {
    let called = operation(entity, name, input).map(|operation| by.call_entity(operation));
    async move { from_json(called?.await?.as_deref()) }
}

/// A signal of a proxy.
#[doc(hidden)]
pub fn signal_typed<C: EntityCaller, I: Serialize>(
    by: &C,
    entity: &EntityId,
    name: &str,
    input: &I,
) -> impl Future<Output = Result<(), FailureDetails>> + Send + use<C, I> {
    let sent = operation(entity, name, input).map(|operation| by.signal_entity(operation));
    async move { sent?.await }
}
