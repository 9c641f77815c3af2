"""Payloads that the SDK stores as blobs, and what workers and clients see of them."""

import base64
import json
import os

from azure.storage.blob import ContainerClient
from durabletask.client import OrchestrationStatus
from durabletask.entities import EntityInstanceId
from durabletask.extensions.azure_blob_payloads import BlobPayloadStore, BlobPayloadStoreOptions

from server import PATIENCE, completed, fresh, output, until

MIB = 1 << 20


def text(size):
    """Random text, which compression does not make much smaller."""
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()


def store(server, **options):
    return BlobPayloadStore(BlobPayloadStoreOptions(connection_string=server.blobs(), **options))


def stored(server, container="durabletask-payloads", prefix=""):
    """Sizes of the payloads in a container, by name."""
    blobs = ContainerClient.from_connection_string(server.blobs(), container)
    return {each.name: each.size for each in blobs.list_blobs(name_starts_with=prefix)}


def swapped(_, value):
    return value[::-1]


def child(_, value):
    return value + "!"


def kept(ctx, value):
    """State of an entity that is as large as what it is given."""
    if ctx.operation == "set":
        ctx.set_state(value)
    return None


def relay(ctx, value):
    """Takes its input through an activity and a child, and adds an event."""
    first = yield ctx.call_activity(swapped, input=value)
    second = yield ctx.call_sub_orchestrator(child, input=first)
    event = yield ctx.wait_for_external_event("more")
    return second + event


def large_payloads_are_stored_as_blobs(server):
    value, event = text(5 * MIB), text(3 * MIB)
    with store(server) as own:
        with server.running([relay, child], [swapped], payloads=own) as client:
            instance = client.schedule_new_orchestration(relay, input=value)
            client.raise_orchestration_event(instance, "more", data=event)
            is_whole = output(client, instance) == value[::-1] + "!" + event
            assert is_whole, "another output"
            # The server itself has references only.
            plain = server.client()
            state = completed(plain, instance)
            for reference in (state.serialized_input, state.serialized_output):
                assert reference.startswith(f"blob:v1:durabletask-payloads:{instance}/"), reference[:80]
            sizes = stored(server, prefix=f"{instance}/")
            assert len(sizes) >= 4, sizes
            # Random base64 has 6 bits in 8; GZip stores little more.
            assert max(sizes.values()) < 8 * MIB * 4 // 5, sizes
            waits = client.schedule_new_orchestration(relay, input=value)
            client.terminate_orchestration(waits, output=event)
            ended = client.wait_for_orchestration_completion(waits, timeout=PATIENCE)
            assert ended.runtime_status == OrchestrationStatus.TERMINATED, ended.runtime_status
            is_whole = json.loads(ended.serialized_output) == event
            assert is_whole, "another output"


def large_states_of_entities_are_stored_as_blobs(server):
    value = text(2 * MIB)
    with store(server) as own:
        with server.running(entities=[kept], payloads=own) as client:
            entity = EntityInstanceId("kept", fresh("large"))
            client.signal_entity(entity, "set", input=value)

            def found():
                state = client.get_entity(entity)
                return state and state.get_state()

            is_whole = json.loads(until("the entity has its state", found)) == value
            assert is_whole, "another state"
            reference = server.client().get_entity(entity).get_state()
            assert reference.startswith("blob:v1:durabletask-payloads:"), reference[:80]


def payloads_above_a_single_put_are_stored_in_blocks(server):
    # azure-storage-blob sends more than 64 MiB in blocks.
    value = text(72 * MIB)
    options = {
        "container_name": "large-payloads",
        "max_stored_payload_bytes": 256 * MIB,
        "enable_compression": False,
    }
    with store(server, **options) as own:
        with server.running([child], payloads=own) as client:
            instance = client.schedule_new_orchestration(child, input=value)
            is_whole = output(client, instance, timeout=3 * PATIENCE) == value + "!"
            assert is_whole, "another output"
            sizes = stored(server, "large-payloads")
            assert sorted(sizes.values()) == [72 * MIB + 2, 72 * MIB + 3], sizes


ALL = [
    large_payloads_are_stored_as_blobs,
    large_states_of_entities_are_stored_as_blobs,
    payloads_above_a_single_put_are_stored_in_blocks,
]
