//! The partitioned service of orchestrations and entities.

use steadfast_partition::{Address, Answer, Halt, Kind, Service, Turn};

use crate::command::{Ask, Letter, Say};
use crate::entity;
use crate::id::KIND;
use crate::instance::{self, Living};

/// The service that stores instances and handles their commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instances;

impl Service for Instances {
    type Command = Ask;
    type Reply = Say;

    fn kind(&self) -> Kind {
        KIND
    }

    fn handle(&self, turn: &mut Turn<'_>, to: &Address, ask: &Ask) -> Result<Answer<Say>, Halt> {
        let say = match ask {
            Ask::Start(begin) => instance::start(turn, to, begin)?,
            Ask::Raise { name, input } => instance::raise(turn, to, name, input.as_ref())?,
            Ask::Deliver(letter) => deliver(turn, to, letter)?,
            Ask::Wake(execution) => instance::wake(turn, to, execution)?,
            Ask::Terminate {
                output,
                is_recursive,
                is_careful,
            } => instance::terminate(turn, to, output.as_ref(), *is_recursive, *is_careful)?,
            Ask::Suspend(reason) => instance::suspend(turn, to, reason.as_ref())?,
            Ask::Resume(reason) => instance::resume(turn, to, reason.as_ref())?,
            Ask::Rewind(reason) => instance::rewind(turn, to, reason.as_ref())?,
            Ask::RewindChild { reason, begin } => {
                instance::rewind_child(turn, to, reason.as_ref(), begin)?
            }
            Ask::Restart => instance::restart(turn, to)?,
            Ask::Purge { is_recursive } => instance::purge(turn, to, *is_recursive)?,
            Ask::Expire(execution) => instance::expire(turn, to, execution)?,
            Ask::TurnDone(done) => instance::turn_done(turn, to, done)?,
            Ask::TaskDone(done) => instance::task_done(turn, to, done)?,
            Ask::GiveUp { execution, failure } => instance::give_up(turn, to, execution, failure)?,
            Ask::Request(request) => entity::request(turn, to, request)?,
            Ask::Lock(wish) => entity::lock(turn, to, wish)?,
            Ask::Unlock { section } => entity::unlock(turn, to, section)?,
            Ask::Release {
                section,
                set,
                position,
            } => entity::release(turn, to, section, set, *position)?,
            Ask::BatchDone(done) => entity::batch_done(turn, to, done)?,
            Ask::Direct(direct) => entity::direct(turn, to, direct)?,
            Ask::Due { request, since } => entity::due(turn, to, request, *since)?,
            Ask::Empty => entity::empty(turn, to),
            Ask::Forget(request) => entity::forget(turn, to, request),
            Ask::Erase => match to.key.starts_with(b"@") {
                true => entity::erase(turn, to)?,
                false => instance::erase(turn, to)?,
            },
        };
        Ok(Answer::Now(say))
    }
}

/// Delivers an event to an orchestration.
fn deliver(turn: &mut Turn<'_>, to: &Address, letter: &Letter) -> Result<Say, Halt> {
    let Some(mut live) = Living::find(turn, to)? else {
        return Ok(Say::Ignored);
    };
    if !live.deliver(letter) {
        return Ok(Say::Ignored);
    }
    live.save()?;
    Ok(Say::Done)
}
