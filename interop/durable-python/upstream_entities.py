"""Scenarios of the e2e tests of durabletask-python on entities, in our words."""

import asyncio
import json
import time
from datetime import datetime, timedelta, timezone

from durabletask import client, task
from durabletask.client import EntityQuery, OrchestrationStatus
from durabletask.entities import DurableEntity, EntityInstanceId
from durabletask.scheduled import (
    AsyncScheduledTaskClient,
    ScheduleCreationOptions,
    ScheduledTaskClient,
    ScheduleQuery,
    ScheduleStatus,
    ScheduleUpdateOptions,
)

from instance_scenarios import simple
from server import PATIENCE, completed, fresh, output, quiet, until


def tally(ctx, amount):
    """An entity as a function."""
    if ctx.operation == "add":
        ctx.set_state(ctx.get_state(int, 0) + amount)
    elif ctx.operation == "break":
        raise ValueError("it broke")
    elif ctx.operation == "pass_on":
        ctx.signal_entity(EntityInstanceId("tally", amount), "add", 3)
    elif ctx.operation == "begin":
        ctx.schedule_new_orchestration("simple", input=amount, instance_id=amount)
    elif ctx.operation == "put":
        ctx.set_state(amount)
    return ctx.get_state(int, 0) if ctx.operation != "put" else None


class Purse(DurableEntity):
    """An entity as a class."""

    def add(self, amount):
        self.set_state(self.get_state(int, 0) + amount)
        return self.get_state(int, 0)

    def split(self, _=None):
        raise ValueError("it broke")


KINDS = ("tally", "purse")


def state_of(own, entity):
    found = own.get_entity(entity, include_state=True)
    return None if found is None else found.get_state(int)


def clients_signal_both_kinds(server):
    with server.new_worker() as worker:
        for entity, name in ((tally, None), (Purse, None), (tally, "Jar"), (Purse, "Bag")):
            worker.add_entity(entity, name)
        worker.start()
        own, key = server.client(), fresh("k")
        for name in ("tally", "Purse", "jar", "BAG"):
            entity = EntityInstanceId(name, key)
            assert own.get_entity(entity) is None
            own.signal_entity(entity, "add", 5)
            until("the signal is run", lambda: state_of(own, entity) == 5)
            found = own.get_entity(entity, include_state=True)
            assert found.id == entity and found.get_locked_by() is None


def orchestrations_signal_and_call_both_kinds(server):
    def using(ctx, key):
        results = []
        for name in KINDS:
            entity = EntityInstanceId(name, key)
            ctx.signal_entity(entity, "add", 1)
            results.append((yield ctx.call_entity(entity, "add", 2)))
        return results

    with server.running([using], entities=[tally, Purse]) as own:
        assert output(own, own.schedule_new_orchestration(using, input=fresh("k"))) == [3, 3]


def calls_under_a_lock(server):
    def locking(ctx, key):
        one, other = EntityInstanceId("tally", key + "1"), EntityInstanceId("tally", key + "2")
        with (yield ctx.lock_entities([one, other])):
            for _ in range(3):
                yield ctx.call_entity(one, "add", 1)
                yield ctx.call_entity(other, "add", 10)
        first = yield ctx.call_entity(one, "add", 0)
        return [first, (yield ctx.call_entity(other, "add", 0))]

    with server.running([locking], entities=[tally]) as own:
        assert output(own, own.schedule_new_orchestration(locking, input=fresh("k"))) == [3, 30]


def entities_pass_on_and_begin(server):
    with server.running([simple], entities=[tally]) as own:
        key, instance = fresh("k"), fresh("begun")
        own.signal_entity(EntityInstanceId("tally", key), "pass_on", key + "b")
        until("it is passed on", lambda: state_of(own, EntityInstanceId("tally", key + "b")) == 3)
        own.signal_entity(EntityInstanceId("tally", key), "begin", instance)
        assert output(own, instance) == instance


def failures_of_operations(server):
    """Caught in the orchestration or not, by both kinds of entities."""
    def careless(ctx, wanted):
        name, key, operation = wanted
        yield ctx.call_entity(EntityInstanceId(name, key), operation)

    def careful(ctx, wanted):
        name, key, operation = wanted
        try:
            yield ctx.call_entity(EntityInstanceId(name, key), operation)
        except task.TaskFailedError as error:
            return error.details.message

    with server.running([careless, careful], entities=[tally, Purse]) as own:
        for name, operation in (("tally", "break"), ("purse", "split")):
            wanted = [name, fresh("k"), operation]
            instance = own.schedule_new_orchestration(careless, input=wanted)
            state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
            assert state.runtime_status == OrchestrationStatus.FAILED
            assert "it broke" in state.failure_details.message, state.failure_details.message
            message = output(own, own.schedule_new_orchestration(careful, input=wanted))
            for part in ("it broke", f"@{name}@{wanted[1]}", operation):
                assert part in message, message


def failures_release_locks(server):
    """However an orchestration leaves its section, the next one gets the lock."""
    def leaving(ctx, wanted):
        how, key = wanted
        entity = EntityInstanceId("tally", key)
        if how == "mishandled":
            yield ctx.lock_entities([entity])
            return (yield ctx.call_entity(entity, "add", 1))
        with (yield ctx.lock_entities([entity])):
            yield ctx.call_entity(entity, "break" if how == "entity" else "add", 1)
            raise RuntimeError("as planned")

    with server.running([leaving], entities=[tally]) as own:
        for how in ("entity", "code", "mishandled"):
            key = fresh("k")
            for _ in range(3):
                instance = own.schedule_new_orchestration(leaving, input=[how, key])
                state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
                is_good = state.runtime_status == OrchestrationStatus.COMPLETED
                assert is_good == (how == "mishandled"), state.failure_details
                found = own.get_entity(EntityInstanceId("tally", key))
                assert found is None or found.get_locked_by() is None, how


def locked_entities_are_guarded(server):
    def refused(what):
        try:
            what()
        except Exception:  # pylint: disable=broad-except
            return True
        return False

    def guarded(ctx, key):
        entity = EntityInstanceId("tally", key)
        with (yield ctx.lock_entities([entity])):
            first = refused(lambda: ctx.signal_entity(entity, "add", 1))
            call = ctx.call_entity(entity, "add", 1)
            second = refused(lambda: ctx.call_entity(entity, "add", 1))
            return [first, second, (yield call)]

    with server.running([guarded], entities=[tally]) as own:
        instance = own.schedule_new_orchestration(guarded, input=fresh("k"))
        assert output(own, instance) == [True, True, 1]


def later_signals(server):
    def delaying(ctx, key):
        due = ctx.current_utc_datetime + timedelta(seconds=1)
        ctx.signal_entity(EntityInstanceId("tally", key), "add", 2, signal_time=due)

    with server.running([delaying], entities=[tally]) as own:
        one, other = EntityInstanceId("tally", fresh("k")), EntityInstanceId("tally", fresh("k"))
        began = time.monotonic()
        due = datetime.now(timezone.utc) + timedelta(seconds=1)
        own.signal_entity(one, "add", 1, signal_time=due)
        completed(own, own.schedule_new_orchestration(delaying, input=other.key))
        assert state_of(own, one) is None and state_of(own, other) is None
        until("the client's signal is run", lambda: state_of(own, one) == 1)
        assert time.monotonic() - began > 0.8
        until("the orchestration's signal is run", lambda: state_of(own, other) == 2)


def falsy_states_stay(server):
    with server.running(entities=[tally]) as own:
        for value in (0, False, "", [], {}):
            entity = EntityInstanceId("tally", fresh("k"))
            own.signal_entity(entity, "put", value)
            until("it is there", lambda: own.get_entity(entity))
            found = own.get_entity(entity, include_state=True)
            assert json.loads(found.get_state()) == value, (found.get_state(), value)


def entities_are_listed(server):
    with server.running(entities=[tally]) as own:
        key, began = fresh("list"), datetime.now(timezone.utc) - timedelta(seconds=1)
        ids = [EntityInstanceId("tally", f"{key}-{number}") for number in range(3)]
        for entity in ids:
            own.signal_entity(entity, "add", 1)
        all_of = lambda query: own.get_all_entities(EntityQuery(**query))
        found = lambda **query: {str(each.id) for each in all_of(query)}
        names = {str(entity) for entity in ids}
        prefix = f"@tally@{key}"
        until("all are there", lambda: found(instance_id_starts_with=prefix) == names)
        assert names <= found(last_modified_from=began)
        assert not names & found(last_modified_to=began)
        assert found(instance_id_starts_with=prefix, page_size=1) == names
        assert found(instance_id_starts_with=f"@tally@{key}-1") == {str(ids[1])}


def storage_is_cleaned(server):
    with server.running(entities=[Purse]) as own:
        entity = EntityInstanceId("purse", fresh("clean"))
        own.signal_entity(entity, "add", 1)
        until("it is there", lambda: own.get_entity(entity))
        own.signal_entity(entity, "delete")
        until("it is gone", lambda: own.get_entity(entity) is None)
        cleaned = own.clean_entity_storage(remove_empty_entities=True, release_orphaned_locks=True)
        assert cleaned.empty_entities_removed == 0 and cleaned.orphaned_locks_released == 0


def scheduler(server, inputs):
    def target(ctx, value):
        if not ctx.is_replaying:
            inputs.append(value)

    worker = server.new_worker()
    worker.add_orchestrator(target)
    worker.configure_scheduled_tasks()
    worker.start()
    return worker


def options(name, seconds, **more):
    return ScheduleCreationOptions(
        schedule_id=name, orchestration_name="target", interval=timedelta(seconds=seconds), **more)


def schedules_run_pause_and_end(server):
    inputs = []
    with scheduler(server, inputs):
        own = ScheduledTaskClient(server.client())
        name = fresh("schedule")
        assert own.get_schedule(name) is None
        now = datetime.now(timezone.utc)
        schedule = own.create_schedule(options(
            name, 1, orchestration_input="a", start_at=now, start_immediately_if_late=True))
        until("it has run", lambda: inputs)
        told = schedule.describe()
        assert told.status == ScheduleStatus.ACTIVE and told.last_run_at is not None
        schedule.pause()
        assert schedule.describe().status == ScheduleStatus.PAUSED
        schedule.update(ScheduleUpdateOptions(orchestration_input="b"))
        schedule.resume()
        until("it has run with the new input", lambda: "b" in inputs)
        schedule.delete()
        assert own.get_schedule(name) is None


def schedules_are_listed(server):
    async def steps(name):
        hub = client.AsyncTaskHubGrpcClient(
            host_address=server.address, metadata=server.metadata, logger=quiet())
        try:
            own = AsyncScheduledTaskClient(hub)
            later = datetime.now(timezone.utc) + timedelta(hours=1)
            one = await own.create_schedule(options(f"{name}-1", 30, start_at=later))
            two = await own.create_schedule(options(f"{name}-2", 30, start_at=later))
            await two.pause()

            async def found(**query):
                listed = await own.list_schedules(ScheduleQuery(schedule_id_prefix=name, **query))
                return [each.schedule_id for each in listed]

            assert await found() == [f"{name}-1", f"{name}-2"]
            assert await found(status=ScheduleStatus.PAUSED) == [f"{name}-2"]
            for each in (one, two):
                await each.delete()
            assert await found() == []
        finally:
            await hub.close()

    with scheduler(server, []):
        asyncio.run(steps(fresh("schedules")))


ALL = [
    clients_signal_both_kinds,
    orchestrations_signal_and_call_both_kinds,
    calls_under_a_lock,
    entities_pass_on_and_begin,
    failures_of_operations,
    failures_release_locks,
    locked_entities_are_guarded,
    later_signals,
    falsy_states_stay,
    entities_are_listed,
    storage_is_cleaned,
    schedules_run_pause_and_end,
    schedules_are_listed,
]
