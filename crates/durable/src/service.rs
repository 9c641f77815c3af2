//! The partitioned service of orchestrations and entities.

use steadfast_partition::{Address, Service, ServiceKind, Turn, TurnError, TurnOutcome};

use crate::command::{Command, ExternalMessage, Reply};
use crate::entity;
use crate::id::KIND;
use crate::instance::{self, LoadedInstance};

/// The service that stores instances and handles their commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instances;

impl Service for Instances {
    type Command = Command;
    type Response = Reply;

    fn kind(&self) -> ServiceKind {
        KIND
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        ask: &Command,
    ) -> Result<TurnOutcome<Reply>, TurnError> {
        let say = match ask {
            Command::Start(begin) => instance::start(turn, to, begin)?,
            Command::Raise { name, input } => instance::raise(turn, to, name, input.as_ref())?,
            Command::Deliver(letter) => deliver(turn, to, letter)?,
            Command::Wake(execution) => instance::wake(turn, to, execution)?,
            Command::Terminate {
                output,
                is_recursive,
                is_careful,
            } => instance::terminate(turn, to, output.as_ref(), *is_recursive, *is_careful)?,
            Command::Suspend(reason) => instance::suspend(turn, to, reason.as_ref())?,
            Command::Resume(reason) => instance::resume(turn, to, reason.as_ref())?,
            Command::Rewind(reason) => instance::rewind(turn, to, reason.as_ref())?,
            Command::RewindChild { reason, begin } => {
                instance::rewind_child(turn, to, reason.as_ref(), begin)?
            }
            Command::Restart => instance::restart(turn, to)?,
            Command::Purge { is_recursive } => instance::purge(turn, to, *is_recursive)?,
            Command::Expire(execution) => instance::expire(turn, to, execution)?,
            Command::TurnDone(done) => instance::turn_done(turn, to, done)?,
            Command::TaskDone(done) => instance::task_done(turn, to, done)?,
            Command::GiveUp { execution, failure } => {
                instance::give_up(turn, to, execution, failure)?
            }
            Command::Request(request) => entity::request(turn, to, request)?,
            Command::Lock(wish) => entity::lock(turn, to, wish)?,
            Command::Unlock { section } => entity::unlock(turn, to, section)?,
            Command::Release {
                section,
                set,
                position,
            } => entity::release(turn, to, section, set, *position)?,
            Command::BatchDone(done) => entity::batch_done(turn, to, done)?,
            Command::Direct(direct) => entity::direct(turn, to, direct)?,
            Command::Due { request, since } => entity::due(turn, to, request, *since)?,
            Command::Empty => entity::empty(turn, to),
            Command::Forget(request) => entity::forget(turn, to, request),
            Command::Erase => {
                if to.key.starts_with(b"@") {
                    entity::erase(turn, to)?
                } else {
                    instance::erase(turn, to)?
                }
            }
        };
        Ok(TurnOutcome::Now(say))
    }
}

/// Delivers an event to an orchestration.
fn deliver(
    turn: &mut Turn<'_>,
    to: &Address,
    letter: &ExternalMessage,
) -> Result<Reply, TurnError> {
    let Some(mut live) = LoadedInstance::find(turn, to)? else {
        return Ok(Reply::Ignored);
    };
    if !live.deliver(letter) {
        return Ok(Reply::Ignored);
    }
    live.save()?;
    Ok(Reply::Done)
}
