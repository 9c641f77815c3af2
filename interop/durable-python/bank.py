"""The seed's bank transfer, and a bank that is run by two programs.

`bank.py work <server>` is a worker until it is killed. `bank.py transfers <server>
<bank> <count>` begins transfers between accounts of a bank, waits for all of them
through whatever happens to the server, and checks that no money was lost.
"""

import sys
import time

import grpc
from durabletask.client import OrchestrationStatus
from durabletask.entities import EntityInstanceId


def account(ctx, amount):
    """The counter of the seed."""
    current = ctx.get_state(int, 0)
    match ctx.operation.lower():
        case "add":
            ctx.set_state(current + amount)
        case "reset":
            ctx.set_state(0)
        case "get":
            return current
    return None


def transfer(ctx, wanted):
    source_key, target_key, amount = wanted
    source = EntityInstanceId("account", source_key)
    target = EntityInstanceId("account", target_key)
    with (yield ctx.lock_entities([source, target])):
        source_balance = yield ctx.call_entity(source, "get")
        if source_balance < amount:
            return False
        yield ctx.call_entity(source, "add", -amount)
        yield ctx.call_entity(target, "add", amount)
        return True


def balance(ctx, key):
    return (yield ctx.call_entity(EntityInstanceId("account", key), "get"))


def pay_in(ctx, wanted):
    key, amount = wanted
    yield ctx.call_entity(EntityInstanceId("account", key), "add", amount)


ACCOUNTS = 8
MONEY = 100


def stubborn(call, *accepted):
    """Calls until the server answers. What it has done already is done."""
    end = time.monotonic() + 120
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() in accepted:
                return None
            if time.monotonic() > end:
                raise
        except TimeoutError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def begin(own, orchestrator, instance, wanted):
    stubborn(
        lambda: own.schedule_new_orchestration(orchestrator, instance_id=instance, input=wanted),
        grpc.StatusCode.ALREADY_EXISTS)


def end_of(own, instance):
    def ended():
        state = own.wait_for_orchestration_completion(instance, timeout=5)
        if state is None:
            raise TimeoutError
        return state
    state = stubborn(ended)
    assert state.runtime_status == OrchestrationStatus.COMPLETED, (instance, state)
    return state


def transfers(server, bank, count):
    own = server.client()
    keys = [f"{bank}-{number}" for number in range(ACCOUNTS)]
    for key in keys:
        begin(own, pay_in, f"in-{key}", [key, MONEY])
        end_of(own, f"in-{key}")
    print("paid in", flush=True)
    for number in range(count):
        source = keys[number % ACCOUNTS]
        target = keys[(number * 3 + 1) % ACCOUNTS]
        wanted = [source, target, 1 + number % 7]
        begin(own, transfer, f"transfer-{bank}-{number}", wanted)
        print("begun", flush=True)
    for number in range(count):
        end_of(own, f"transfer-{bank}-{number}")
    total = 0
    for key in keys:
        begin(own, balance, f"balance-{key}", key)
        total += end_of(own, f"balance-{key}").get_output()
    assert total == ACCOUNTS * MONEY, total
    print("no money was lost", flush=True)


def main():
    from server import Server

    server = Server(sys.argv[2])
    if sys.argv[1] == "work":
        own = server.new_worker()
        for each in (transfer, balance, pay_in):
            own.add_orchestrator(each)
        own.add_entity(account)
        own.start()
        print("at work", flush=True)
        sys.stdin.read()
    else:
        transfers(server, sys.argv[3], int(sys.argv[4]))


if __name__ == "__main__":
    main()
