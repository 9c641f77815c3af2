"""Scenarios of the e2e tests of durabletask-python on orchestrations, in our words."""

import asyncio
import json
import uuid
from datetime import timedelta

from durabletask import client, task, worker
from durabletask.client import OrchestrationStatus
from durabletask.worker import (
    ActivityWorkItemFilter,
    EntityWorkItemFilter,
    OrchestrationWorkItemFilter,
    VersionFailureStrategy,
    VersioningOptions,
    VersionMatchStrategy,
    WorkItemFilters,
)
from durabletask.entities import EntityInstanceId

from server import PATIENCE, completed, fresh, output, quiet, until


def failed(own, instance):
    state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
    assert state.runtime_status == OrchestrationStatus.FAILED, state.runtime_status
    return state.failure_details


def nothing_to_do(server):
    seen = []

    def idle(ctx, value):
        seen.append((ctx.is_replaying, value))

    with server.running([idle]) as own:
        state = completed(own, own.schedule_new_orchestration(idle))
        assert seen == [(False, None)], seen
        assert (state.name, state.serialized_input, state.serialized_output) == ("idle", None, None)
        assert state.failure_details is None and state.serialized_custom_status is None


def failures_are_made_good(server):
    """An activity fails, the orchestration catches it and undoes what was done before."""
    undone = []

    def give(_, what):
        if what == "last":
            raise ValueError("nothing left")
        return what

    def undo(_, what):
        undone.append(what)

    def careful(ctx, wanted):
        done = []
        try:
            for what in wanted:
                done.append((yield ctx.call_activity(give, input=what)))
        except task.TaskFailedError as error:
            assert error.details.error_type.endswith("ValueError"), error.details.error_type
            for what in done:
                yield ctx.call_activity(undo, input=what)
            return error.details.message

    with server.running([careful], [give, undo]) as own:
        instance = own.schedule_new_orchestration(careful, input=["a", "b", "last", "c"])
        assert output(own, instance) == "nothing left"
        assert sorted(undone) == ["a", "b"], undone


def children_fan_out(server):
    counted = []

    def count(_, __):
        counted.append(1)

    def many(ctx, number):
        for _ in range(number):
            yield ctx.call_activity(count)

    def parent_of_many(ctx, number):
        yield task.when_all([ctx.call_sub_orchestrator(many, input=3) for _ in range(number)])

    with server.running([parent_of_many, many], [count]) as own:
        completed(own, own.schedule_new_orchestration(parent_of_many, input=10))
        assert len(counted) == 30, len(counted)


def children_are_named(server):
    def kid(_, value):
        return value + 1

    def by_name(ctx, value):
        return (yield ctx.call_sub_orchestrator("kid", input=value))

    with server.running([by_name, kid]) as own:
        assert output(own, own.schedule_new_orchestration("by_name", input=6)) == 7


def three_events(server):
    def patient(ctx, _):
        found = []
        for name in "ABC":
            found.append((yield ctx.wait_for_external_event(name)))
        return found

    with server.running([patient]) as own:
        instance = own.schedule_new_orchestration(patient)
        for name in "ABC":
            own.raise_orchestration_event(instance, name, data=name.lower())
        assert output(own, instance) == ["a", "b", "c"]


def five_rounds(server):
    def rounds(ctx, found):
        found.append((yield ctx.wait_for_external_event("next")))
        if len(found) == 5:
            return found
        ctx.continue_as_new(found, save_events=True)

    with server.running([rounds]) as own:
        instance = own.schedule_new_orchestration(rounds, input=[])
        for number in range(5):
            own.raise_orchestration_event(instance, "next", data=number)
        state = completed(own, instance)
        assert json.loads(state.serialized_output) == [0, 1, 2, 3, 4]
        assert json.loads(state.serialized_input) == [0, 1, 2, 3]


def retries_multiply(server):
    children, attempts = [], []
    policy = task.RetryPolicy(
        first_retry_interval=timedelta(milliseconds=100), max_number_of_attempts=3,
        backoff_coefficient=1, retry_timeout=timedelta(seconds=30))

    def explode(_, __):
        attempts.append(1)
        raise RuntimeError("it is broken")

    def unlucky(ctx, _):
        if not ctx.is_replaying:
            children.append(1)
        yield ctx.call_activity(explode, retry_policy=policy)

    def stubborn(ctx, _):
        yield ctx.call_sub_orchestrator(unlucky, retry_policy=policy)

    with server.running([stubborn, unlucky], [explode]) as own:
        details = failed(own, own.schedule_new_orchestration(stubborn))
        assert details.error_type.endswith("TaskFailedError"), details.error_type
        assert details.message.startswith("Sub-orchestration task #1 failed:"), details.message
        assert details.message.endswith("Activity task #1 failed: it is broken"), details.message
        assert details.stack_trace is not None
        assert (len(children), len(attempts)) == (3, 9), (children, attempts)


def retries_end_in_time(server):
    attempts = []
    policy = task.RetryPolicy(
        first_retry_interval=timedelta(seconds=0.5), max_number_of_attempts=5,
        backoff_coefficient=2, retry_timeout=timedelta(seconds=3))

    def explode_later(_, __):
        attempts.append(1)
        raise RuntimeError("it is broken")

    def hurried(ctx, _):
        yield ctx.call_activity(explode_later, retry_policy=policy)

    with server.running([hurried], [explode_later]) as own:
        details = failed(own, own.schedule_new_orchestration(hurried))
        assert details.message.endswith("Activity task #1 failed: it is broken"), details.message
        # 0.5 + 1 + 2 s are over the limit of 3 s.
        assert len(attempts) == 3, attempts


def losers_are_cancelled(server):
    def decide(ctx, seconds):
        yes, no = ctx.wait_for_external_event("yes"), ctx.wait_for_external_event("no")
        late = ctx.create_timer(timedelta(seconds=seconds))
        first = yield task.when_any([yes, no, late])
        for other in (yes, no, late):
            if other != first:
                other.cancel()
        return {id(yes): "yes", id(no): "no", id(late): "late"}[id(first)]

    with server.running([decide]) as own:
        for said in ("yes", "no"):
            instance = own.schedule_new_orchestration(decide, input=60)
            own.raise_orchestration_event(instance, said)
            assert output(own, instance) == said
        assert output(own, own.schedule_new_orchestration(decide, input=0.2)) == "late"


def undeliverable_events_are_dropped(server):
    turns = []

    def gone(_, __):
        turns.append("gone")

    def shouting(ctx, target):
        turns.append("shouting")
        for instance in (target, "there-is-none", ctx.instance_id):
            ctx.send_event(instance, "ignored")

    with server.running([gone, shouting]) as own:
        instance = own.schedule_new_orchestration(gone)
        completed(own, instance)
        completed(own, own.schedule_new_orchestration(shouting, input=instance))
        assert turns == ["gone", "shouting"], turns


def long_timers_come_in_pieces(server):
    turns = []

    def napping(ctx, _):
        turns.append(1)
        yield ctx.create_timer(timedelta(seconds=1.2))
        return "awake"

    # The managed worker has no such option.
    with worker.TaskHubGrpcWorker(
            host_address=server.address, metadata=server.metadata, logger=quiet(),
            maximum_timer_interval=timedelta(seconds=0.5)) as own:
        own.add_orchestrator(napping)
        own.start()
        hub = server.client()
        assert output(hub, hub.schedule_new_orchestration(napping)) == "awake"
        assert len(turns) >= 4, turns


def uuids_differ(server):
    def noop(_, __):
        pass

    def naming(ctx, _):
        names = [ctx.new_uuid(), ctx.new_uuid()]
        yield ctx.call_activity(noop)
        return names + [ctx.new_uuid()]

    with server.running([naming], [noop]) as own:
        names = output(own, own.schedule_new_orchestration(naming))
        assert len({uuid.UUID(name) for name in names}) == 3, names


def rewound_twice(server):
    """Fails until its third attempt; no reason is given for setting it back."""
    attempts, good = [], []

    def fine(_, __):
        good.append(1)
        return "fine"

    def third_time(_, __):
        attempts.append(1)
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        return "lucky"

    def hopeful(ctx, _):
        return [(yield ctx.call_activity(fine)), (yield ctx.call_activity(third_time))]

    with server.running([hopeful], [fine, third_time]) as own:
        instance = own.schedule_new_orchestration(hopeful)
        failed(own, instance)
        own.rewind_orchestration(instance)
        until("it fails again", lambda: len(attempts) == 2)
        failed(own, instance)
        own.rewind_orchestration(instance, reason="once more")
        assert output(own, instance) == ["fine", "lucky"]
        assert len(good) == 1, "what went well is not done again"


def plus_one(_, number):
    return number + 1


def adding(ctx, number):
    return (yield ctx.call_activity(plus_one, input=number))


def other(_, number):
    return number


def registered(server, filters=..., orchestrators=(adding,), activities=(plus_one,), versioning=None):
    """A worker with filters: `...` for those of what it has, None for none."""
    own = server.new_worker()
    for each in orchestrators:
        own.add_orchestrator(each)
    for each in activities:
        own.add_activity(each)
    if versioning is not None:
        own.use_versioning(versioning)
    if filters is ...:
        own.use_work_item_filters()
    else:
        own.use_work_item_filters(filters)
    own.start()
    return own


def filters_that_fit(server):
    listed = WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter(name="adding")],
        activities=[ActivityWorkItemFilter(name="plus_one")])
    hub = server.client()
    for filters in (..., listed, None):
        with registered(server, filters):
            assert output(hub, hub.schedule_new_orchestration(adding, input=1)) == 2
    with registered(server, ...) as own:
        own.stop()
        # Cleared filters are no filters.
        own.use_work_item_filters(None)
        own.start()
        assert output(hub, hub.schedule_new_orchestration(adding, input=2)) == 3


def filters_keep_others_away(server):
    listed = WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter(name="adding")],
        activities=[ActivityWorkItemFilter(name="plus_one")])
    hub = server.client()
    with registered(server, listed, (adding, other)):
        aside = hub.schedule_new_orchestration(other, input=1)
        assert output(hub, hub.schedule_new_orchestration(adding, input=1)) == 2
        state = hub.get_orchestration_state(aside)
        assert state.runtime_status == OrchestrationStatus.PENDING, state.runtime_status
    with registered(server, None, (other,), ()):
        assert output(hub, aside) == 1


def filters_of_entities(server):
    def wanted(ctx, _):
        ctx.set_state(1)

    def unwanted(ctx, _):
        ctx.set_state(1)

    key = fresh("key")
    listed = WorkItemFilters(entities=[EntityWorkItemFilter(name="Wanted")])
    with server.running(entities=[wanted, unwanted], filters=listed) as own:
        own.signal_entity(EntityInstanceId("unwanted", key), "go")
        own.signal_entity(EntityInstanceId("wanted", key), "go")
        until("it is run", lambda: own.get_entity(EntityInstanceId("wanted", key)))
        assert own.get_entity(EntityInstanceId("unwanted", key)) is None


def strict(version, failure=VersionFailureStrategy.REJECT):
    return VersioningOptions(
        version=version, match_strategy=VersionMatchStrategy.STRICT,
        failure_strategy=failure)


def strict_versions_are_filtered(server):
    hub = server.client()
    listed = WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter(name="other", versions=["2.0"])])
    for filters, versioning in ((..., strict("2.0")), (listed, None)):
        with registered(server, filters, (other,), (), versioning):
            aside = [
                hub.schedule_new_orchestration(other, input=1, version="1.0"),
                hub.schedule_new_orchestration(other, input=1)]
            instance = hub.schedule_new_orchestration(other, input=2, version="2.0")
            assert output(hub, instance) == 2
            for instance in aside:
                state = hub.get_orchestration_state(instance)
                assert state.runtime_status == OrchestrationStatus.PENDING, state.runtime_status
                hub.terminate_orchestration(instance)


def strict_versions_with_activities(server):
    """Python schedules activities without a version; the filter lists one."""
    hub = server.client()
    with registered(server, ..., (adding,), (plus_one,), strict("2.0")):
        instance = hub.schedule_new_orchestration(adding, input=1, version="2.0")
        assert output(hub, instance) == 2


def rejected_versions_find_their_worker(server):
    """A rolling upgrade: the old worker rejects what the new one takes."""
    hub = server.client()

    def seen(ctx, _):
        return ctx.version

    with registered(server, None, (seen,), (), strict("1.0")):
        with registered(server, None, (seen,), (), strict("2.0")):
            for version in ("1.0", "2.0") * 5:
                instance = hub.schedule_new_orchestration(seen, version=version)
                assert output(hub, instance) == version


def versions_that_do_not_fit_fail(server):
    def versioned(ctx, _):
        return ctx.version

    fail = VersionFailureStrategy.FAIL
    with server.running([versioned]) as own:
        assert output(own, own.schedule_new_orchestration(versioned, version="1.2.3")) == "1.2.3"
    hub = server.client()
    older = VersioningOptions(
        version="1.1.0", match_strategy=VersionMatchStrategy.CURRENT_OR_OLDER,
        failure_strategy=fail)
    for versioning, good, bad in ((strict("1.0.0", fail), "1.0.0", "1.1.0"), (older, "1.0.5", "1.2.0")):
        with registered(server, None, (versioned,), (), versioning):
            assert output(hub, hub.schedule_new_orchestration(versioned, version=good)) == good
            details = failed(hub, hub.schedule_new_orchestration(versioned, version=bad))
            assert details.error_type == "VersionMismatch", details.error_type


def asynchronous_clients(server):
    """The same by the client for asyncio."""
    turns = []

    def echo_event(ctx, value):
        turns.append(1)
        if value == "wait":
            return (yield ctx.wait_for_external_event("go"))
        return value

    async def steps():
        own = client.AsyncTaskHubGrpcClient(
            host_address=server.address, metadata=server.metadata, logger=quiet())

        async def end(instance):
            return await own.wait_for_orchestration_completion(instance, timeout=PATIENCE)

        try:
            plain = await own.schedule_new_orchestration(echo_event, input="plain")
            state = await end(plain)
            assert json.loads(state.serialized_output) == "plain"
            waiting = await own.schedule_new_orchestration(echo_event, input="wait")
            await own.wait_for_orchestration_start(waiting, timeout=PATIENCE)
            await own.suspend_orchestration(waiting)
            state = await own.get_orchestration_state(waiting)
            assert state.runtime_status == OrchestrationStatus.SUSPENDED
            await own.raise_orchestration_event(waiting, "go", data=5)
            await own.resume_orchestration(waiting)
            state = await end(waiting)
            assert json.loads(state.serialized_output) == 5
            same = await own.restart_orchestration(plain)
            assert same == plain and json.loads((await end(same)).serialized_output) == "plain"
            new = await own.restart_orchestration(plain, restart_with_new_instance_id=True)
            assert new != plain and json.loads((await end(new)).serialized_output) == "plain"
            stopped = await own.schedule_new_orchestration(echo_event, input="wait")
            await own.terminate_orchestration(stopped, output="enough")
            state = await end(stopped)
            assert state.runtime_status == OrchestrationStatus.TERMINATED
            assert json.loads(state.serialized_output) == "enough"
            purged = await own.purge_orchestration(stopped)
            assert purged.deleted_instance_count == 1
            assert await own.get_orchestration_state(stopped) is None
        finally:
            await own.close()

    with server.running([echo_event]):
        asyncio.run(steps())


ALL = [
    nothing_to_do,
    failures_are_made_good,
    children_fan_out,
    children_are_named,
    three_events,
    five_rounds,
    retries_multiply,
    retries_end_in_time,
    losers_are_cancelled,
    undeliverable_events_are_dropped,
    long_timers_come_in_pieces,
    uuids_differ,
    rewound_twice,
    filters_that_fit,
    filters_keep_others_away,
    filters_of_entities,
    strict_versions_are_filtered,
    strict_versions_with_activities,
    rejected_versions_find_their_worker,
    versions_that_do_not_fit_fail,
    asynchronous_clients,
]
