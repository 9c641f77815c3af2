"""What clients do with instances: reuse, terminate, suspend, rewind, purge, query."""

import json
from datetime import datetime, timedelta, timezone

import durabletask.internal.orchestrator_service_pb2 as pb
import grpc
from durabletask import history, task
from durabletask.client import OrchestrationQuery, OrchestrationStatus

from server import PATIENCE, completed, fresh, output, until


def refused(code, call):
    """The text of a refusal with this status."""
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        return error.details()
    except Exception as error:  # pylint: disable=broad-except
        cause = error.__cause__ or error.__context__
        assert isinstance(cause, grpc.RpcError), repr(error)
        assert cause.code() == code, (cause.code(), cause.details())
        return cause.details()
    raise AssertionError(f"{code} was expected")


def simple(_, value):
    return value


def waiting(ctx, _):
    return (yield ctx.wait_for_external_event("go"))


def replaceable(*statuses):
    return pb.OrchestrationIdReusePolicy(replaceableStatus=list(statuses))


def ids_are_taken_once(server):
    with server.running([simple]) as own:
        instance = own.schedule_new_orchestration(simple, input=1)
        assert output(own, instance) == 1
        refused(
            grpc.StatusCode.ALREADY_EXISTS,
            lambda: own.schedule_new_orchestration(simple, instance_id=instance, input=2))
        assert output(own, instance) == 1


def policies_replace_listed_states_only(server):
    with server.running([simple, waiting]) as own:
        instance = own.schedule_new_orchestration(waiting, instance_id=fresh("reuse"))
        own.wait_for_orchestration_start(instance, timeout=PATIENCE)
        done = replaceable(pb.ORCHESTRATION_STATUS_COMPLETED)
        again = lambda policy: own.schedule_new_orchestration(
            simple, instance_id=instance, input="new", reuse_id_policy=policy)
        refused(grpc.StatusCode.ALREADY_EXISTS, lambda: again(done))
        live = replaceable(pb.ORCHESTRATION_STATUS_RUNNING, pb.ORCHESTRATION_STATUS_TERMINATED)
        again(live)
        assert output(own, instance) == "new"
        refused(grpc.StatusCode.ALREADY_EXISTS, lambda: again(live))
        again(done)
        assert output(own, instance) == "new"


def forbidden_policies_are_refused(server):
    with server.running([waiting]) as own:
        instance = own.schedule_new_orchestration(waiting, instance_id=fresh("never"))
        own.wait_for_orchestration_start(instance, timeout=PATIENCE)

        def again(status):
            said = refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                lambda: own.schedule_new_orchestration(
                    simple, instance_id=instance, reuse_id_policy=replaceable(status)))
            assert (
                "Invalid reusable statuses: cannot exclude 'Terminated' "
                "while also allowing reuse of running instances"
            ) in said, said

        again(pb.ORCHESTRATION_STATUS_RUNNING)
        own.suspend_orchestration(instance)
        again(pb.ORCHESTRATION_STATUS_SUSPENDED)
        own.resume_orchestration(instance)
        own.raise_orchestration_event(instance, "go", data=1)
        assert output(own, instance) == 1
        # Nothing live is there: such a policy is no mistake.
        free = own.schedule_new_orchestration(
            waiting, instance_id=fresh("free"),
            reuse_id_policy=replaceable(pb.ORCHESTRATION_STATUS_RUNNING))
        own.terminate_orchestration(free)


def bad_ids_are_refused(server):
    own = server.client()
    for instance in ("@counter@a", "x" * 101):
        refused(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: own.schedule_new_orchestration(simple, instance_id=instance))


def unknown_instances_are_named_as_such(server):
    own = server.client()
    nobody = fresh("nobody")
    assert own.get_orchestration_state(nobody) is None
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.raise_orchestration_event(nobody, "go"))
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.suspend_orchestration(nobody))
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.resume_orchestration(nobody))
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.rewind_orchestration(nobody))
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.restart_orchestration(nobody))
    refused(grpc.StatusCode.NOT_FOUND, lambda: own.get_orchestration_history(nobody))
    own.terminate_orchestration(nobody)
    assert own.purge_orchestration(nobody).deleted_instance_count == 0


def a_start_is_waited_for(server):
    own = server.client()
    instance = own.schedule_new_orchestration("waiting", instance_id=fresh("start"))
    try:
        own.wait_for_orchestration_start(instance, timeout=1)
        raise AssertionError("nothing can have started it")
    except TimeoutError:
        pass
    with server.running([waiting]):
        state = own.wait_for_orchestration_start(instance, timeout=PATIENCE)
        assert state.runtime_status == OrchestrationStatus.RUNNING
        own.raise_orchestration_event(instance, "go", data="on")
        assert output(own, instance) == "on"


def terminate_needs_no_worker(server):
    own = server.client()
    instance = own.schedule_new_orchestration("nobody knows it", instance_id=fresh("end"))
    own.terminate_orchestration(instance, output={"why": "enough"})
    state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
    assert state.runtime_status == OrchestrationStatus.TERMINATED
    assert json.loads(state.serialized_output) == {"why": "enough"}
    own.raise_orchestration_event(instance, "too late")
    own.terminate_orchestration(instance, output="again")
    assert json.loads(own.get_orchestration_state(instance).serialized_output) == {"why": "enough"}


def family(ctx, depth):
    if depth > 0:
        yield ctx.call_sub_orchestrator(family, input=depth - 1, instance_id=f"{ctx.instance_id}-{depth - 1}")
    else:
        yield ctx.wait_for_external_event("never")


def terminate_reaches_grandchildren_if_told(server):
    with server.running([family]) as own:
        for recursive in (True, False):
            instance = own.schedule_new_orchestration(family, input=2, instance_id=fresh("family"))
            grandchild = f"{instance}-1-0"
            own.wait_for_orchestration_start(grandchild, timeout=PATIENCE)
            own.terminate_orchestration(instance, recursive=recursive)
            state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
            assert state.runtime_status == OrchestrationStatus.TERMINATED
            if recursive:
                state = own.wait_for_orchestration_completion(grandchild, timeout=PATIENCE)
                assert state.runtime_status == OrchestrationStatus.TERMINATED
            else:
                state = own.get_orchestration_state(grandchild)
                assert state.runtime_status == OrchestrationStatus.RUNNING
                own.terminate_orchestration(f"{instance}-1")


def collector(ctx, count):
    found = []
    for _ in range(count):
        found.append((yield ctx.wait_for_external_event("note")))
        ctx.set_custom_status(len(found))
    return found


def suspended_instances_run_nothing_and_miss_nothing(server):
    with server.running([collector]) as own:
        instance = own.schedule_new_orchestration(collector, input=5)
        own.raise_orchestration_event(instance, "note", data=0)
        until("the first event", lambda: own.get_orchestration_state(instance).serialized_custom_status == "1")
        own.suspend_orchestration(instance)
        own.suspend_orchestration(instance)
        state = own.get_orchestration_state(instance)
        assert state.runtime_status == OrchestrationStatus.SUSPENDED
        for number in range(1, 5):
            own.raise_orchestration_event(instance, "note", data=number)
        try:
            own.wait_for_orchestration_completion(instance, timeout=1)
            raise AssertionError("it is suspended")
        except TimeoutError:
            pass
        state = own.get_orchestration_state(instance)
        assert state.runtime_status == OrchestrationStatus.SUSPENDED
        assert state.serialized_custom_status == "1"
        own.resume_orchestration(instance)
        assert output(own, instance) == [0, 1, 2, 3, 4]


RUNS = {}


def fragile(_, key):
    RUNS[key] = RUNS.get(key, 0) + 1
    if RUNS[key] < 3:
        raise RuntimeError(f"run {RUNS[key]}")
    return RUNS[key]


def steady(_, key):
    name = key + "-steady"
    RUNS[name] = RUNS.get(name, 0) + 1
    return RUNS[name]


def brittle(ctx, key):
    first = yield ctx.call_activity(steady, input=key)
    second = yield ctx.call_activity(fragile, input=key)
    return [first, second]


def rewind_runs_only_what_failed(server):
    with server.running([brittle], [fragile, steady]) as own:
        key = fresh("key")
        instance = own.schedule_new_orchestration(brittle, input=key)
        for _ in range(2):
            state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
            assert state.runtime_status == OrchestrationStatus.FAILED
            own.rewind_orchestration(instance, reason="repaired")
        assert output(own, instance) == [1, 3]


def brittle_parent(ctx, key):
    return (yield ctx.call_sub_orchestrator(brittle, input=key, instance_id=ctx.instance_id + "-child"))


def rewind_reaches_children(server):
    with server.running([brittle_parent, brittle], [fragile, steady]) as own:
        key = fresh("key")
        instance = own.schedule_new_orchestration(brittle_parent, input=key)
        for _ in range(2):
            state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
            assert state.runtime_status == OrchestrationStatus.FAILED
            own.rewind_orchestration(instance)
        assert output(own, instance) == [1, 3]


def rewind_makes_purged_children_anew(server):
    with server.running([brittle_parent, brittle], [fragile, steady]) as own:
        key = fresh("key")
        RUNS[key] = 1
        instance = own.schedule_new_orchestration(brittle_parent, input=key)
        state = own.wait_for_orchestration_completion(instance, timeout=PATIENCE)
        assert state.runtime_status == OrchestrationStatus.FAILED
        assert own.purge_orchestration(instance + "-child").deleted_instance_count == 1
        own.rewind_orchestration(instance)
        assert output(own, instance) == [2, 3]


def only_failed_instances_are_rewound(server):
    with server.running([simple]) as own:
        instance = own.schedule_new_orchestration(simple, input=1)
        completed(own, instance)
        refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: own.rewind_orchestration(instance))


def restart_keeps_the_input(server):
    with server.running([simple, waiting]) as own:
        instance = own.schedule_new_orchestration(simple, input={"a": 1}, tags={"colour": "red"})
        completed(own, instance)
        assert own.restart_orchestration(instance) == instance
        assert output(own, instance) == {"a": 1}
        other = own.restart_orchestration(instance, restart_with_new_instance_id=True)
        assert other != instance
        assert output(own, other) == {"a": 1}
        live = own.schedule_new_orchestration(waiting)
        own.wait_for_orchestration_start(live, timeout=PATIENCE)
        refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: own.restart_orchestration(live))
        own.terminate_orchestration(live)


def purge_takes_what_has_ended(server):
    with server.running([simple, waiting, family]) as own:
        began = datetime.now(timezone.utc) - timedelta(seconds=1)
        instance = own.schedule_new_orchestration(simple, input=1)
        completed(own, instance)
        live = own.schedule_new_orchestration(waiting)
        own.wait_for_orchestration_start(live, timeout=PATIENCE)
        assert own.purge_orchestration(live).deleted_instance_count == 0
        assert own.purge_orchestration(instance).deleted_instance_count == 1
        assert own.get_orchestration_state(instance) is None
        grand = own.schedule_new_orchestration(family, input=2, instance_id=fresh("family"))
        own.wait_for_orchestration_start(f"{grand}-1-0", timeout=PATIENCE)
        own.terminate_orchestration(grand, recursive=True)
        for each in (grand, f"{grand}-1", f"{grand}-1-0"):
            own.wait_for_orchestration_completion(each, timeout=PATIENCE)
        assert own.purge_orchestration(grand, recursive=True).deleted_instance_count == 3
        for _ in range(5):
            completed(own, own.schedule_new_orchestration(simple, input=2))
        purged = own.purge_orchestrations_by(
            created_time_from=began, runtime_status=[OrchestrationStatus.COMPLETED])
        assert purged.deleted_instance_count >= 5 and purged.is_complete, purged
        assert own.get_orchestration_state(live) is not None
        own.terminate_orchestration(live)


def queries_give_each_instance_once(server):
    """While others start, pages over many instances give each of them once."""
    with server.running([simple]) as own:
        prefix = fresh("query")
        wanted = {own.schedule_new_orchestration(simple, input=n, instance_id=f"{prefix}-{n:04}")
                  for n in range(300)}
        query = OrchestrationQuery(
            instance_id_prefix=prefix, max_instance_count=7, fetch_inputs_and_outputs=True)
        found = []
        token = None
        from durabletask.internal.client_helpers import build_query_instances_req
        number = 0
        while True:
            request = build_query_instances_req(query, token)
            page = own._stub.QueryInstances(request)  # pylint: disable=protected-access
            found += [state.instanceId for state in page.orchestrationState]
            own.schedule_new_orchestration(simple, instance_id=f"{prefix}-later-{number}")
            number += 1
            if not page.continuationToken.value:
                break
            token = page.continuationToken
        assert len(found) == len(set(found)), "an instance was given twice"
        assert wanted <= set(found), len(wanted - set(found))
        for each in wanted:
            completed(own, each)
        states = own.get_all_orchestration_states(OrchestrationQuery(
            instance_id_prefix=prefix + "-0", runtime_status=[OrchestrationStatus.COMPLETED],
            fetch_inputs_and_outputs=True))
        assert len(states) == 300
        assert all(state.serialized_input == state.serialized_output for state in states)
        none = own.get_all_orchestration_states(OrchestrationQuery(
            instance_id_prefix=prefix, runtime_status=[OrchestrationStatus.CONTINUED_AS_NEW]))
        assert none == []


def ended_ids_are_listed_page_by_page(server):
    with server.running([simple]) as own:
        began = datetime.now(timezone.utc)
        wanted = set()
        for number in range(25):
            instance = own.schedule_new_orchestration(simple, input=number)
            completed(own, instance)
            wanted.add(instance)
        found, token = [], None
        while True:
            page = own.list_instance_ids(
                completed_time_from=began - timedelta(seconds=1), page_size=10, continuation_token=token)
            found += page.items
            token = page.continuation_token
            if not token:
                break
        assert len(found) == len(set(found))
        assert wanted <= set(found)


def plus(_, number):
    return number + 1


def storied(ctx, number):
    for _ in range(3):
        number = yield ctx.call_activity(plus, input=number)
    yield ctx.create_timer(timedelta(milliseconds=5))
    return number


def histories_are_told_in_order(server):
    with server.running([storied], [plus]) as own:
        instance = own.schedule_new_orchestration(storied, input=1)
        completed(own, instance)
        events = own.get_orchestration_history(instance)
        kinds = [type(event).__name__ for event in events]
        assert kinds[0] == "OrchestratorStartedEvent", kinds
        assert kinds[-1] == "ExecutionCompletedEvent", kinds
        ids = [event.event_id for event in events if event.event_id >= 0]
        assert ids == sorted(set(ids)), ids
        starts = [event.timestamp for event in events if isinstance(event, history.OrchestratorStartedEvent)]
        assert all(a < b for a, b in zip(starts, starts[1:])), starts
        assert kinds.count("TaskCompletedEvent") == 3


def failing(_, __):
    raise KeyError("a reason")


def failures_are_told(server):
    with server.running([failing]) as own:
        state = own.wait_for_orchestration_completion(
            own.schedule_new_orchestration(failing), timeout=PATIENCE)
        assert state.runtime_status == OrchestrationStatus.FAILED
        assert "a reason" in state.failure_details.message
        assert "KeyError" in state.failure_details.error_type
        assert state.failure_details.stack_trace


ALL = [
    ids_are_taken_once,
    policies_replace_listed_states_only,
    forbidden_policies_are_refused,
    bad_ids_are_refused,
    unknown_instances_are_named_as_such,
    a_start_is_waited_for,
    terminate_needs_no_worker,
    terminate_reaches_grandchildren_if_told,
    suspended_instances_run_nothing_and_miss_nothing,
    rewind_runs_only_what_failed,
    rewind_reaches_children,
    rewind_makes_purged_children_anew,
    only_failed_instances_are_rewound,
    restart_keeps_the_input,
    purge_takes_what_has_ended,
    queries_give_each_instance_once,
    ended_ids_are_listed_page_by_page,
    histories_are_told_in_order,
    failures_are_told,
]
