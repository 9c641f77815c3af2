"""What the synchronous client does, and what it must see."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

from azure.eventhub import (
    EventData,
    EventHubConsumerClient,
    EventHubProducerClient,
    TransportType,
)
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.eventhub.exceptions import (
    AuthenticationError,
    ConnectError,
    ConnectionLostError,
    EventDataSendError,
    EventHubError,
)

# Key, and its partition of 16.
VECTORS = {
    "a": 12,
    "alphabet": 6,
    "pk1": 13,
    "house-42": 15,
    "house-99999": 3,
    "123456789012": 5,
    "1234567890123": 10,
    "abcdefghijklmnopqrstuvwx": 4,
    "Straße": 14,
    "partition-key-that-is-longer-than-24-bytes": 5,
}


def producer(server, hub, **options):
    text = options.pop("text", None) or server.connection_string()
    return EventHubProducerClient.from_connection_string(text, eventhub_name=hub, **options)


def consumer(server, hub, **options):
    text = options.pop("text", None) or server.connection_string()
    return EventHubConsumerClient.from_connection_string(
        text, consumer_group="$Default", eventhub_name=hub, **options
    )


def read(server, hub, partition, start, count, inclusive=False, text=None, **options):
    """So many events of a partition, from a position on."""
    client = consumer(server, hub, text=text, **options)
    events, problems = [], []
    done = threading.Event()

    def on_event(_, event):
        events.append(event)
        if len(events) >= count:
            done.set()

    def on_error(_, error):
        problems.append(error)
        done.set()

    arguments = {
        "on_event": on_event,
        "on_error": on_error,
        "partition_id": partition,
        "starting_position": start,
        "starting_position_inclusive": inclusive,
    }
    thread = threading.Thread(target=client.receive, kwargs=arguments)
    thread.start()
    assert done.wait(30), f"{len(events)} of {count} events after 30 s"
    client.close()
    thread.join(30)
    assert not problems, problems
    return events


def bodies(events):
    return [event.body_as_str() for event in events]


def send(server, hub, partition, texts):
    with producer(server, hub) as client:
        batch = client.create_batch(partition_id=partition)
        for text in texts:
            batch.add(EventData(text))
        client.send_batch(batch)


def properties(server):
    with producer(server, "HOUSES") as client:
        found = client.get_eventhub_properties()
        assert found["eventhub_name"] == "houses", found
        assert found["partition_ids"] == ["0", "1", "2", "3"], found
        age = datetime.now(timezone.utc) - found["created_at"]
        assert timedelta(0) <= age < timedelta(hours=1), found
        empty = client.get_partition_properties("3")
        assert empty["is_empty"] and empty["last_enqueued_sequence_number"] == -1, empty
        assert empty["last_enqueued_offset"] == "-1", empty


def many_connections(server):
    """The client writes socket options back, which fails if a segment is too long."""

    def one(_):
        client = producer(server, "houses", retry_total=0)
        client.get_partition_ids()
        client.close()

    # Side by side, because the client sleeps through most of each.
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(1000)))


def batch_of_500(server):
    send(server, "houses", "0", [f"{number}" for number in range(500)])
    events = read(server, "houses", "0", "-1", 500)
    assert bodies(events) == [f"{number}" for number in range(500)]
    assert [event.sequence_number for event in events] == list(range(500))
    assert all(isinstance(event.offset, str) for event in events)


def single_and_batch_of_one(server):
    with producer(server, "houses") as client:
        client.send_event(EventData("same"), partition_id="1")
        client.send_batch([EventData("same")], partition_id="1")
    one, other = read(server, "houses", "1", "-1", 2)
    assert one.body_as_str() == other.body_as_str() == "same"
    assert one.properties == other.properties
    assert one.partition_key == other.partition_key


def sends_return_at_once(server):
    """It asks to settle second, and would wait for its time-out if that were agreed."""
    with producer(server, "houses") as client:
        client.send_event(EventData("first"))
        started = time.monotonic()
        for _ in range(20):
            client.send_batch([EventData("x")])
        assert time.monotonic() - started < 5


def keyed_sends(server):
    with producer(server, "keys") as client:
        for key, partition in VECTORS.items():
            before = client.get_partition_properties(str(partition))
            client.send_batch([EventData(key)], partition_key=key)
            after = client.get_partition_properties(str(partition))
            number = "last_enqueued_sequence_number"
            assert after[number] == before[number] + 1, (key, partition)
    event = read(server, "keys", "15", "-1", 1)[0]
    assert event.partition_key == b"house-42", event.partition_key


def keyless_sends_spread_evenly(server):
    with producer(server, "even") as client:
        for _ in range(40):
            client.send_batch([EventData("x")])
        counts = [
            client.get_partition_properties(partition)["last_enqueued_sequence_number"] + 1
            for partition in client.get_partition_ids()
        ]
    assert sum(counts) == 40 and max(counts) - min(counts) <= 1, counts


def typed_properties(server):
    now = datetime.now(timezone.utc).replace(microsecond=0)
    sent = {
        "text": "Straße",
        "whole": 2**30,
        "real": 1.5,
        "yes": True,
        "bytes": b"\x00\xff",
        "id": uuid.uuid4(),
        "time": now,
    }
    event = EventData(b"\x00\x01\xfe\xff")
    event.properties = sent
    event.content_type = "application/octet-stream"
    event.message_id = "m-1"
    event.correlation_id = "c-1"
    with producer(server, "typed") as client:
        client.send_event(event)
    got = read(server, "typed", "0", "-1", 1)[0]
    assert b"".join(got.body) == b"\x00\x01\xfe\xff"
    found = {key.decode(): value for key, value in got.properties.items()}
    assert found["text"] == "Straße".encode() and found["whole"] == 2**30, found
    assert found["real"] == 1.5 and found["yes"] is True, found
    assert found["bytes"] == b"\x00\xff" and found["id"] == sent["id"], found
    assert got.content_type == "application/octet-stream", got.content_type
    assert (got.message_id, got.correlation_id) == ("m-1", "c-1")


def every_kind_of_position(server):
    for number in range(3):
        send(server, "positions", "0", [f"{number}-a", f"{number}-b"])
        time.sleep(0.02)
    everything = read(server, "positions", "0", "-1", 6)
    names = bodies(everything)
    third = everything[2]
    after = third.enqueued_time - timedelta(milliseconds=1)
    cases = [
        ("-1", False, 0),
        (third.offset, False, 3),
        (third.offset, True, 2),
        (third.sequence_number, False, 3),
        (third.sequence_number, True, 2),
        (after, False, 2),
        (third.enqueued_time, True, 2),
    ]
    for start, inclusive, first in cases:
        events = read(server, "positions", "0", start, 6 - first, inclusive)
        assert bodies(events) == names[first:], (start, inclusive, bodies(events))


def latest_sees_what_comes(server):
    client = consumer(server, "positions")
    seen, ready, done = [], threading.Event(), threading.Event()

    def on_event(_, event):
        seen.append(event.body_as_str())
        done.set()

    def on_initialize(_):
        ready.set()

    thread = threading.Thread(
        target=client.receive,
        kwargs={
            "on_event": on_event,
            "on_partition_initialize": on_initialize,
            "partition_id": "0",
            "starting_position": "@latest",
        },
    )
    thread.start()
    assert ready.wait(10)
    deadline = time.monotonic() + 20
    number = 0
    while not done.is_set() and time.monotonic() < deadline:
        send(server, "positions", "0", [f"late {number}"])
        number += 1
        done.wait(0.2)
    client.close()
    thread.join(30)
    assert seen and seen[0].startswith("late"), seen


def beyond_the_end(server):
    try:
        read(server, "positions", "0", "99999999", 1, retry_total=0)
    except AssertionError as error:
        assert "The supplied offset '99999999' is invalid" in str(error), error
        return
    raise AssertionError("a position behind the end was taken")


def too_large(server):
    with producer(server, "large", retry_total=0) as client:
        client.send_event(EventData(b"x" * 1_048_000))
        batch = client.create_batch()
        assert batch.max_size_in_bytes == 1_048_576, batch.max_size_in_bytes
        try:
            client.send_event(EventData(b"x" * 1_100_000))
        except EventDataSendError as error:
            assert "message-size-exceeded" in str(error), error
        else:
            raise AssertionError("a message over the limit was taken")
        client.send_event(EventData("again"))
    assert read(server, "large", "0", "-1", 2)[1].body_as_str() == "again"


def unknown_event_hub(server):
    with producer(server, "nowhere", retry_total=0) as client:
        attempts = (
            client.get_eventhub_properties,
            client.create_batch,
            lambda: client.send_event(EventData("x")),
        )
        for attempt in attempts:
            try:
                attempt()
            except EventHubError as error:
                words = "The messaging entity 'nowhere' could not be found"
                assert words in str(error), error
            else:
                raise AssertionError("an unknown event hub was found")


def unknown_partition(server):
    words = "The specified partition is invalid"
    with producer(server, "houses", retry_total=0) as client:
        for partition in ("4", "XYZ", "-1"):
            try:
                client.get_partition_properties(partition)
            except EventHubError as error:
                assert words in str(error), error
            else:
                raise AssertionError("an unknown partition has properties")
            # This client asks for the partitions before it sends, and refuses by itself.
            try:
                client.send_batch([EventData("x")], partition_id=partition)
            except ConnectError:
                pass
            else:
                raise AssertionError("an unknown partition took an event")


def annotated_messages(server):
    """Everything that a message may have, in the order in which this client writes it."""
    full = AmqpAnnotatedMessage(
        data_body=b"full",
        header={"durable": True, "priority": 7},
        delivery_annotations={"hop": "one"},
        annotations={"mine": "annotation"},
        footer={"sum": "two"},
    )
    nothing = AmqpAnnotatedMessage(value_body=None)
    with producer(server, "typed") as client:
        client.send_batch([full, nothing], partition_id="0")
        client.send_event(nothing, partition_id="0")
    event, *others = read(server, "typed", "0", "-1", 3)
    raw = event.raw_amqp_message
    assert b"".join(raw.body) == b"full", raw
    assert raw.header.durable is True and raw.header.priority == 7, raw.header
    assert raw.delivery_annotations[b"hop"] == b"one", raw.delivery_annotations
    assert raw.annotations[b"mine"] == b"annotation", raw.annotations
    assert raw.footer[b"sum"] == b"two", raw.footer
    assert len(others) == 2, others


def bad_key(server):
    text = server.connection_string(key="wrong")
    with producer(server, "houses", text=text, retry_total=0) as client:
        try:
            client.send_event(EventData("x"))
        except AuthenticationError:
            return
    raise AssertionError("a wrong key was taken")


def stolen_by_owner_level(server):
    send(server, "epochs", "0", ["x"])
    older, newer = consumer(server, "epochs"), consumer(server, "epochs")
    problems, closed, got, stolen = [], [], threading.Event(), threading.Event()

    def on_error(_, error):
        problems.append(error)

    def on_close(_, reason):
        closed.append(reason)
        stolen.set()

    def run(client, level, first):
        client.receive(
            on_event=lambda *_: first.set(),
            on_error=on_error if client is older else None,
            on_partition_close=on_close if client is older else None,
            partition_id="0",
            owner_level=level,
            starting_position="-1",
        )

    threads = [threading.Thread(target=run, args=(older, 1, got))]
    threads[0].start()
    assert got.wait(20)
    again = threading.Event()
    threads.append(threading.Thread(target=run, args=(newer, 2, again)))
    threads[1].start()
    assert again.wait(20) and stolen.wait(20)
    older.close()
    newer.close()
    for thread in threads:
        thread.join(30)
    assert isinstance(problems[0], ConnectionLostError), problems
    assert "amqp:link:stolen" in str(problems[0]) or "New receiver" in str(problems[0]), problems
    assert [reason.name for reason in closed][:1] == ["OWNERSHIP_LOST"], closed


def over_tls(server):
    options = server.encrypted("amqps") | {"transport_type": TransportType.Amqp}
    with producer(server, "houses", **options) as client:
        client.send_event(EventData("tls"), partition_id="2")
    event = read(server, "houses", "2", "-1", 1, **options)[0]
    assert event.body_as_str() == "tls"


def over_websocket(server):
    options = server.encrypted("https") | {"transport_type": TransportType.AmqpOverWebsocket}
    with producer(server, "houses", **options) as client:
        client.send_batch([EventData("web"), EventData("socket")], partition_id="3")
    events = read(server, "houses", "3", "-1", 2, **options)
    assert bodies(events) == ["web", "socket"]


ALL = [
    properties,
    many_connections,
    batch_of_500,
    single_and_batch_of_one,
    sends_return_at_once,
    keyed_sends,
    keyless_sends_spread_evenly,
    typed_properties,
    every_kind_of_position,
    latest_sees_what_comes,
    beyond_the_end,
    too_large,
    unknown_event_hub,
    unknown_partition,
    annotated_messages,
    bad_key,
    stolen_by_owner_level,
    over_tls,
    over_websocket,
]
