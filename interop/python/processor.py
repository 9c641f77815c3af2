"""A processor that runs until its input ends: processor.py <what the server said> <options>.

Options are JSON: hub, group, container, kind (sync or asyncio), interval and expiry in
seconds.
Every line that it prints is JSON: what it owns, what it got, what it gave up.
"""

import asyncio
import json
import logging
import sys
import threading

from azure.eventhub import EventHubConsumerClient
from azure.eventhub.aio import EventHubConsumerClient as AsyncClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore as AsyncStore

from server import Server

PRINTING = threading.Lock()


def say(**facts):
    with PRINTING:
        print(json.dumps(facts), flush=True)


def got(context, event):
    say(got=event.body_as_str(), partition=context.partition_id, sequence=event.sequence_number)


def settings(options):
    return {
        "starting_position": "-1",
        "on_partition_initialize": lambda context: say(began=context.partition_id),
        "on_partition_close": lambda context, reason: say(
            ended=context.partition_id, reason=reason.name
        ),
        "on_error": lambda _, error: say(error=str(error)),
    }


def client_settings(server, options):
    # This client would keep the port in the names of its blobs, and those of Node do
    # not: so the port stands apart.
    return {
        **server.without_port(),
        "consumer_group": options["group"],
        "eventhub_name": options["hub"],
        "load_balancing_interval": options["interval"],
        "partition_ownership_expiration_interval": options["expiry"],
        "load_balancing_strategy": options.get("strategy", "greedy"),
    }


def run_sync(server, options):
    store = BlobCheckpointStore.from_connection_string(server.blobs(), options["container"])
    client = EventHubConsumerClient.from_connection_string(
        **client_settings(server, options), checkpoint_store=store
    )

    def on_event(context, event):
        got(context, event)
        context.update_checkpoint(event)
        say(kept=event.body_as_str())

    def leave():
        sys.stdin.read()
        client.close()

    threading.Thread(target=leave, daemon=True).start()
    client.receive(on_event=on_event, **settings(options))


async def run_asyncio(server, options):
    store = AsyncStore.from_connection_string(server.blobs(), options["container"])
    client = AsyncClient.from_connection_string(
        **client_settings(server, options), checkpoint_store=store
    )

    async def on_event(context, event):
        got(context, event)
        await context.update_checkpoint(event)
        say(kept=event.body_as_str())

    def awaited(call):
        async def handler(*arguments):
            call(*arguments)

        return handler

    handlers = {
        name: awaited(value) if callable(value) else value
        for name, value in settings(options).items()
    }
    async with client:
        receiving = asyncio.create_task(client.receive(on_event=on_event, **handlers))
        await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(receiving, return_exceptions=True)


def main():
    # What goes wrong is told by the handler of errors.
    logging.disable(logging.CRITICAL)
    server, options = Server(sys.argv[1]), json.loads(sys.argv[2])
    if options["kind"] == "sync":
        run_sync(server, options)
    else:
        asyncio.run(run_asyncio(server, options))
    say(left=True)


main()
