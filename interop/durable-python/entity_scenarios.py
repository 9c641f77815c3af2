"""What entities do: signals, calls, failures, deletion, queries."""

import json
import time
from datetime import datetime, timedelta, timezone

import grpc
from durabletask import task
from durabletask.client import EntityQuery
from durabletask.entities import DurableEntity, EntityInstanceId

from instance_scenarios import refused
from server import fresh, output, until


class Account(DurableEntity):
    """An entity as a class."""

    def add(self, amount):
        if amount == "bad":
            self.set_state(-1)
            self.signal_entity(EntityInstanceId("counter", "never"), "add", 1)
            raise ValueError("no amount")
        balance = self.get_state(int, 0) + amount
        self.set_state(balance)
        return balance

    def get(self):
        return self.get_state(int, 0)

    def tell(self, other):
        self.signal_entity(EntityInstanceId("counter", other), "add", self.get_state(int, 0))

    def begin(self, instance):
        return self.schedule_new_orchestration("told", input="by an entity", instance_id=instance)


def counter(ctx, value):
    """An entity as a function."""
    state = ctx.get_state()
    match ctx.operation.lower():
        case "add":
            ctx.set_state((state or 0) + value)
            return (state or 0) + value
        case "append":
            ctx.set_state((state or []) + [value])
            return None
        case "get":
            return state
        case "reset":
            ctx.set_state(0)
            return None
        case "delete":
            ctx.set_state(None)
            return None
    raise NotImplementedError(ctx.operation)


def told(_, text):
    return text


def state_of(own, entity):
    found = own.get_entity(entity)
    return None if found is None else json.loads(found.get_state())


def call(ctx, wanted):
    name, key, operation, value = wanted
    try:
        return (yield ctx.call_entity(EntityInstanceId(name, key), operation, value))
    except task.TaskFailedError as error:
        return {"message": str(error)}


def ask(own, name, key, operation, value=None):
    return output(own, own.schedule_new_orchestration(call, input=[name, key, operation, value]))


def signals_make_entities(server):
    with server.running(entities=[counter, Account]) as own:
        for name in ("counter", "account"):
            entity = EntityInstanceId(name, fresh("new"))
            assert own.get_entity(entity) is None
            own.signal_entity(entity, "add", 5)
            own.signal_entity(entity, "add", 6)
            until("both signals", lambda: state_of(own, entity) == 11)


def calls_are_answered(server):
    with server.running([call], entities=[counter, Account]) as own:
        for name in ("counter", "account"):
            key = fresh("call")
            assert ask(own, name, key, "add", 5) == 5
            assert ask(own, name, key, "add", 0) == 5
            assert ask(own, name, key, "get") == 5


def signals_run_in_order(server):
    with server.running([call], entities=[counter]) as own:
        key = fresh("order")
        entity = EntityInstanceId("counter", key)
        for number in range(200):
            own.signal_entity(entity, "append", number)
        until("all signals", lambda: state_of(own, entity) == list(range(200)))


def shower(ctx, wanted):
    key, count = wanted
    for _ in range(count):
        ctx.signal_entity(EntityInstanceId("counter", key), "add", 1)
    yield ctx.create_timer(timedelta(milliseconds=1))
    return (yield ctx.call_entity(EntityInstanceId("counter", key), "get"))


def ten_thousand_signals(server):
    """From ten orchestrations: none is lost, none comes twice."""
    with server.running([shower, call], entities=[counter]) as own:
        key = fresh("shower")
        instances = [own.schedule_new_orchestration(shower, input=[key, 1000]) for _ in range(10)]
        for instance in instances:
            # What it has sent itself has come before its call.
            assert output(own, instance, 180) >= 1000
        assert ask(own, "counter", key, "get") == 10_000


def a_failing_operation_leaves_no_trace(server):
    with server.running([call], entities=[counter, Account]) as own:
        key = fresh("fail")
        assert ask(own, "account", key, "add", 3) == 3
        failure = ask(own, "account", key, "add", "bad")
        # The SDK puts the type of its own error in front of it.
        assert "no amount" in failure["message"], failure
        own.signal_entity(EntityInstanceId("account", key), "add", "bad")
        assert ask(own, "account", key, "get") == 3
        assert own.get_entity(EntityInstanceId("counter", "never")) is None
        failure = ask(own, "account", key, "nonsense")
        assert isinstance(failure, dict), failure


def entities_signal_and_start(server):
    with server.running([call, told], entities=[counter, Account]) as own:
        key, other, instance = fresh("from"), fresh("to"), fresh("told")
        ask(own, "account", key, "add", 9)
        own.signal_entity(EntityInstanceId("account", key), "tell", other)
        until("the other", lambda: state_of(own, EntityInstanceId("counter", other)) == 9)
        own.signal_entity(EntityInstanceId("account", key), "begin", instance)
        assert output(own, instance) == "by an entity"


def scheduled_signals_wait(server):
    with server.running(entities=[counter]) as own:
        entity = EntityInstanceId("counter", fresh("later"))
        due = datetime.now(timezone.utc) + timedelta(seconds=5)
        own.signal_entity(entity, "add", 1, signal_time=due)
        own.signal_entity(entity, "add", 10)
        until("the signal at once", lambda: state_of(own, entity) == 10)
        assert datetime.now(timezone.utc) < due, "this machine is too slow to tell"
        until("the signal in time", lambda: state_of(own, entity) == 11)
        assert datetime.now(timezone.utc) >= due - timedelta(milliseconds=100)


def deleted_entities_come_again(server):
    with server.running(entities=[counter, Account]) as own:
        for name in ("counter", "account"):
            entity = EntityInstanceId(name, fresh("gone"))
            own.signal_entity(entity, "add", 5)
            until("the entity", lambda: state_of(own, entity) == 5)
            own.signal_entity(entity, "delete")
            until("its end", lambda: own.get_entity(entity) is None)
            own.signal_entity(entity, "add", 7)
            until("its return", lambda: state_of(own, entity) == 7)


def names_fold_and_keys_do_not(server):
    with server.running([call], entities=[counter]) as own:
        key = fresh("Key")
        own.signal_entity(EntityInstanceId("COUNTER", key), "add", 1)
        own.signal_entity(EntityInstanceId("Counter", key.lower()), "ADD", 2)
        until("one", lambda: state_of(own, EntityInstanceId("counter", key)) == 1)
        until("the other", lambda: state_of(own, EntityInstanceId("counter", key.lower())) == 2)


def long_ids_are_refused(server):
    own = server.client()
    refused(
        grpc.StatusCode.INVALID_ARGUMENT,
        lambda: own.signal_entity(EntityInstanceId("counter", "x" * 100), "add", 1))


def entities_are_found(server):
    with server.running(entities=[counter]) as own:
        prefix = fresh("found")
        began = datetime.now(timezone.utc) - timedelta(seconds=1)
        for number in range(30):
            own.signal_entity(EntityInstanceId("counter", f"{prefix}-{number:02}"), "add", number)
        query = EntityQuery(instance_id_starts_with=f"@counter@{prefix}", page_size=7)
        until("all of them", lambda: len(own.get_all_entities(query)) == 30)
        found = own.get_all_entities(query)
        keys = [each.id.key for each in found]
        assert keys == sorted(set(keys)), keys
        assert [json.loads(each.get_state()) for each in found] == list(range(30))
        query.include_state = False
        assert all(not each.includes_state for each in own.get_all_entities(query))
        query.last_modified_from = began
        assert len(own.get_all_entities(query)) == 30
        query.last_modified_to = began
        assert own.get_all_entities(query) == []
        cleaned = own.clean_entity_storage()
        assert (cleaned.empty_entities_removed, cleaned.orphaned_locks_released) == (0, 0), cleaned


def slow_entity(ctx, seconds):
    """Says when it began and ended, so that overlaps can be seen."""
    began = time.monotonic()
    time.sleep(seconds)
    spans = ctx.get_state(list, None) or []
    ctx.set_state(spans + [[began, time.monotonic()]])


def operations_run_one_at_a_time(server):
    with server.running(entities=[slow_entity]) as own:
        entity = EntityInstanceId("slow_entity", fresh("one"))
        for _ in range(10):
            own.signal_entity(entity, "run", 0.02)
        until("all of them", lambda: len(state_of(own, entity) or []) == 10)
        spans = state_of(own, entity)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), spans


ALL = [
    signals_make_entities,
    calls_are_answered,
    signals_run_in_order,
    ten_thousand_signals,
    a_failing_operation_leaves_no_trace,
    entities_signal_and_start,
    scheduled_signals_wait,
    deleted_entities_come_again,
    names_fold_and_keys_do_not,
    long_ids_are_refused,
    entities_are_found,
    operations_run_one_at_a_time,
]
