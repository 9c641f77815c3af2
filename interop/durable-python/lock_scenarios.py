"""Critical sections: the seed's bank transfer, and what may not happen in one."""

import json
from datetime import timedelta

import durabletask.internal.orchestrator_service_pb2 as pb
from durabletask.client import OrchestrationStatus
from durabletask.entities import EntityInstanceId

from bank import account, balance, pay_in, transfer
from entity_scenarios import call, counter, state_of
from server import PATIENCE, completed, fresh, output, until


def locked_by(own, entity):
    """Who holds the lock; the SDK cannot read the id of an orchestration there."""
    request = pb.GetEntityRequest(instanceId=str(entity), includeState=False)
    return own._stub.GetEntity(request).entity.lockedBy.value  # pylint: disable=protected-access


def money_is_transferred(server):
    with server.running([transfer, balance, pay_in], entities=[account]) as own:
        bank = fresh("bank")
        source, target = f"{bank}-a", f"{bank}-b"
        output(own, own.schedule_new_orchestration(pay_in, input=[source, 100]))
        assert output(own, own.schedule_new_orchestration(transfer, input=[source, target, 70])) is True
        assert output(own, own.schedule_new_orchestration(transfer, input=[source, target, 70])) is False
        assert output(own, own.schedule_new_orchestration(balance, input=source)) == 30
        assert output(own, own.schedule_new_orchestration(balance, input=target)) == 70


def opposite_orders_do_not_deadlock(server):
    with server.running([transfer, balance, pay_in], entities=[account]) as own:
        bank = fresh("bank")
        source, target = f"{bank}-a", f"{bank}-b"
        for each in (source, target):
            output(own, own.schedule_new_orchestration(pay_in, input=[each, 1000]))
        ways = [(source, target), (target, source)]
        instances = [own.schedule_new_orchestration(transfer, input=[*ways[n % 2], 1]) for n in range(40)]
        for instance in instances:
            assert output(own, instance) is True
        sums = [output(own, own.schedule_new_orchestration(balance, input=each)) for each in (source, target)]
        assert sums == [1000, 1000], sums
        assert locked_by(own, EntityInstanceId("account", source)) == ""


def holder(ctx, key):
    """Holds a lock until it is told to let go."""
    entity = EntityInstanceId("counter", key)
    with (yield ctx.lock_entities([entity, entity])):
        before = yield ctx.call_entity(entity, "get")
        ctx.set_custom_status("locked")
        yield ctx.wait_for_external_event("go")
        after = yield ctx.call_entity(entity, "get")
    yield ctx.create_timer(timedelta(milliseconds=1))
    return [before, after]


def is_locked(own, instance):
    state = own.get_orchestration_state(instance)
    return state is not None and state.serialized_custom_status == '"locked"'


def others_wait_until_a_lock_is_released(server):
    with server.running([holder, call], entities=[counter]) as own:
        key = fresh("held")
        entity = EntityInstanceId("counter", key)
        instance = own.schedule_new_orchestration(holder, input=key)
        until("the lock", lambda: is_locked(own, instance))
        assert locked_by(own, entity) in (instance, ""), locked_by(own, entity)
        for number in range(5):
            own.signal_entity(entity, "append", number)
        asking = own.schedule_new_orchestration(call, input=["counter", key, "get", None])
        try:
            own.wait_for_orchestration_completion(asking, timeout=1)
            raise AssertionError("the entity is locked")
        except TimeoutError:
            pass
        own.raise_orchestration_event(instance, "go")
        # Nothing that others wanted ran inside the section.
        before, after = output(own, instance)
        assert before == after, (before, after)
        assert output(own, asking) == [0, 1, 2, 3, 4]
        assert state_of(own, entity) == [0, 1, 2, 3, 4]


def the_holder_of_a_lock_is_named(server):
    with server.running([holder], entities=[counter]) as own:
        key = fresh("named")
        entity = EntityInstanceId("counter", key)
        own.signal_entity(entity, "add", 1)
        until("the entity", lambda: state_of(own, entity) == 1)
        instance = own.schedule_new_orchestration(holder, input=key)
        until("the lock", lambda: is_locked(own, instance))
        assert locked_by(own, entity) == instance
        own.raise_orchestration_event(instance, "go")
        completed(own, instance)
        until("its release", lambda: locked_by(own, entity) == "")


def faulty(ctx, wanted):
    """Ends inside a critical section, in this way."""
    key, how = wanted
    entity = EntityInstanceId("counter", key)
    yield ctx.lock_entities([entity])
    ctx.set_custom_status("locked")
    if how == "fail":
        raise ValueError("inside")
    if how == "again":
        yield ctx.wait_for_external_event("go")
        ctx.continue_as_new([key, "fail"])
        return
    yield ctx.wait_for_external_event("never")


def every_end_releases_locks(server):
    with server.running([faulty, call], entities=[counter]) as own:
        for how in ("fail", "terminate", "again", "purge"):
            key = fresh(how)
            instance = own.schedule_new_orchestration(faulty, input=[key, how])
            if how != "fail":
                until("the lock", lambda: is_locked(own, instance))
            if how in ("terminate", "purge"):
                own.terminate_orchestration(instance)
            if how == "again":
                own.raise_orchestration_event(instance, "go")
            own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
            if how == "purge":
                own.purge_orchestration(instance)
            asking = own.schedule_new_orchestration(call, input=["counter", key, "add", 1])
            assert output(own, asking) == 1, how


def guarded(what):
    try:
        what()
        return None
    except Exception as error:  # pylint: disable=broad-except
        return type(error).__name__


def rules(ctx, key):
    """Breaks every rule of a critical section, and goes on."""
    first, second = EntityInstanceId("counter", key + "1"), EntityInstanceId("counter", key + "2")
    with (yield ctx.lock_entities([first])):
        found = [
            guarded(lambda: ctx.lock_entities([second])),
            guarded(lambda: ctx.call_entity(second, "get")),
            guarded(lambda: ctx.signal_entity(first, "add", 1)),
            guarded(lambda: ctx.lock_entities([])),
        ]
        pending = ctx.call_entity(first, "add", 1)
        found.append(guarded(lambda: ctx.call_entity(first, "add", 1)))
        yield pending
        try:
            yield ctx.call_sub_orchestrator("leaf", input=1)
            found.append(None)
        except Exception as error:  # pylint: disable=broad-except
            found.append(error.details.error_type)
        ctx.signal_entity(second, "add", 5)
        found.append((yield ctx.call_entity(first, "add", 1)))
    yield ctx.create_timer(timedelta(milliseconds=1))
    return found


def leaf(_, number):
    return number


def rules_of_critical_sections_hold(server):
    with server.running([rules, leaf, call], entities=[counter]) as own:
        key = fresh("rules")
        found = output(own, own.schedule_new_orchestration(rules, input=key))
        assert all(each == "RuntimeError" for each in found[:3]), found
        assert found[4] == "RuntimeError", found
        assert found[5] == "CriticalSectionViolation", found
        assert found[6] == 2, found
        until("the signal to another", lambda: state_of(own, EntityInstanceId("counter", key + "2")) == 5)
        assert output(own, own.schedule_new_orchestration(call, input=["counter", key + "1", "get", None])) == 2


ALL = [
    money_is_transferred,
    opposite_orders_do_not_deadlock,
    others_wait_until_a_lock_is_released,
    the_holder_of_a_lock_is_named,
    every_end_releases_locks,
    rules_of_critical_sections_hold,
]
