"""What the client on asyncio does, and what it must see."""

import asyncio

from azure.eventhub import EventData, TransportType
from azure.eventhub.aio import EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.exceptions import AuthenticationError, EventHubError


def producer(server, hub, **options):
    text = options.pop("text", None) or server.connection_string()
    return EventHubProducerClient.from_connection_string(text, eventhub_name=hub, **options)


async def read(server, hub, partition, start, count, **options):
    text = options.pop("text", None) or server.connection_string()
    client = EventHubConsumerClient.from_connection_string(
        text, consumer_group="second", eventhub_name=hub, **options
    )
    events, done = [], asyncio.Event()

    async def on_event(_, event):
        events.append(event)
        if len(events) >= count:
            done.set()

    async with client:
        receiving = asyncio.create_task(
            client.receive(on_event=on_event, partition_id=partition, starting_position=start)
        )
        await asyncio.wait_for(done.wait(), 30)
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)
    return events


async def send_and_read(server):
    async with producer(server, "houses") as client:
        before = await client.get_partition_properties("2")
        batch = await client.create_batch(partition_id="2")
        for number in range(100):
            batch.add(EventData(f"{number}"))
        await client.send_batch(batch)
        await client.send_event(EventData("last"), partition_id="2")
    start = before["last_enqueued_sequence_number"]
    events = await read(server, "houses", "2", start, 101)
    texts = [event.body_as_str() for event in events]
    assert texts == [f"{number}" for number in range(100)] + ["last"], texts
    first = events[0].sequence_number
    assert first == start + 1, (first, start)


async def parallel_senders_keep_order(server):
    async def one(name):
        async with producer(server, "houses") as client:
            for number in range(20):
                await client.send_event(EventData(f"{name} {number}"), partition_id="1")

    async with producer(server, "houses") as client:
        before = await client.get_partition_properties("1")
    await asyncio.gather(*(one(name) for name in range(8)))
    start = before["last_enqueued_sequence_number"]
    events = await read(server, "houses", "1", start, 160)
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(start + 1, start + 161)), numbers
    for name in range(8):
        own = [text for event in events if (text := event.body_as_str()).startswith(f"{name} ")]
        assert own == [f"{name} {number}" for number in range(20)], own


async def errors(server):
    async with producer(server, "nowhere", retry_total=0) as client:
        try:
            await client.send_event(EventData("x"))
        except EventHubError as error:
            assert "could not be found" in str(error), error
        else:
            raise AssertionError("an unknown event hub was found")
    text = server.connection_string(key="wrong")
    async with producer(server, "houses", text=text, retry_total=0) as client:
        try:
            await client.send_event(EventData("x"))
        except AuthenticationError:
            pass
        else:
            raise AssertionError("a wrong key was taken")
    async with producer(server, "large", retry_total=0) as client:
        try:
            await client.send_event(EventData(b"x" * 1_100_000))
        except EventHubError as error:
            assert "message-size-exceeded" in str(error), error
        else:
            raise AssertionError("a message over the limit was taken")
        await client.send_event(EventData("again"))


async def over_tls_and_websocket(server):
    for port, transport in [
        ("amqps", TransportType.Amqp),
        ("https", TransportType.AmqpOverWebsocket),
    ]:
        options = server.encrypted(port) | {"transport_type": transport}
        async with producer(server, "houses", **options) as client:
            before = await client.get_partition_properties("3")
            await client.send_event(EventData(port), partition_id="3")
        start = before["last_enqueued_sequence_number"]
        events = await read(server, "houses", "3", start, 1, **options)
        assert events[0].body_as_str() == port


ALL = [send_and_read, parallel_senders_keep_order, errors, over_tls_and_websocket]
