"""What signalrcore can do: three transports, JSON and MessagePack."""

import queue
import threading

from signalrcore.hub_connection_builder import HubConnectionBuilder
from signalrcore.protocol.json_hub_protocol import JsonHubProtocol
from signalrcore.protocol.messagepack_protocol import MessagePackHubProtocol
from signalrcore.subject import Subject
from signalrcore.types import HttpTransportType


def check(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def connect(server, protocol, transport):
    options = {"access_token_factory": lambda: server["token"]}
    if transport is not None:
        options["transport"] = transport
    url = f"{server['url']}/client/?hub=room"
    if transport is HttpTransportType.long_polling:
        # It polls without its token.
        url = f"{server['url']}/open"
        del options["access_token_factory"]
    builder = HubConnectionBuilder().with_url(url, options=options)
    return builder.with_hub_protocol(protocol).build()


def talk(server, protocol, transport=None):
    connection = connect(server, protocol, transport)
    opened, closed = threading.Event(), threading.Event()
    told, errors = queue.Queue(), queue.Queue()
    connection.on_open(opened.set)
    connection.on_close(closed.set)
    connection.on_error(errors.put)
    connection.on("told", told.put)
    connection.start()
    assert opened.wait(10), "it did not open"
    try:
        if transport is HttpTransportType.long_polling:
            check(call_once(connection, "add", [40, 2]), 42)
            return
        work(connection, told, errors)
        # In MessagePack it leaves out an element of the call.
        if isinstance(protocol, JsonHubProtocol):
            upload(connection, told)
    finally:
        connection.stop()
    assert closed.wait(40), "it did not close"


def call_once(connection, method, arguments):
    """With polling it takes only the first message out of each answer."""
    done = queue.Queue()
    connection.invoke(method, arguments, done.put)
    return done.get(timeout=10).result


def work(connection, told, errors):
    done = queue.Queue()

    def call(method, arguments):
        connection.invoke(method, arguments, done.put)
        return done.get(timeout=10).result

    check(call("add", [40, 2]), 42)
    check(call("echo_text", ["ä\n€" * 1000]), "ä\n€" * 1000)
    for number in range(5):
        connection.invoke("tell_me", [number])
    check([told.get(timeout=10) for _ in range(5)], [[number] for number in range(5)])
    connection.invoke("fail", [True])
    error = errors.get(timeout=10).error
    assert error.endswith("HubException: as you wish"), error
    items, ended = [], threading.Event()
    # It can only subscribe after it has asked: the first item must not come at once.
    connection.stream("count_later", [5]).subscribe(
        {"next": items.append, "complete": lambda _: ended.set(), "error": errors.put}
    )
    assert ended.wait(10), "the stream did not end"
    check(items, [0, 1, 2, 3, 4])


def upload(connection, told):
    subject = Subject()
    connection.invoke("sum", subject)
    for number in range(1, 21):
        subject.next(number)
    subject.complete()
    check(told.get(timeout=10), [210])


def signalrcore_json(server):
    talk(server, JsonHubProtocol())


def signalrcore_packed(server):
    talk(server, MessagePackHubProtocol())


def signalrcore_transports(server):
    for transport in HttpTransportType:
        talk(server, JsonHubProtocol(), transport)


def signalrcore_app_server(server):
    """Against the app server of the benchmark, at two nodes."""
    options = {"access_token_factory": lambda: server["token"]}
    told, connections = queue.Queue(), []
    for url in [server["url"], server["other"]]:
        builder = HubConnectionBuilder()
        builder = builder.with_url(f"{url}/client/?hub=far", options=dict(options))
        connection = builder.with_hub_protocol(JsonHubProtocol()).build()
        opened = threading.Event()
        connection.on_open(opened.set)
        connection.on("tick", told.put)
        connection.start()
        assert opened.wait(10), "it did not open"
        connections.append(connection)
    try:
        check(call_once(connections[0], "echo", ["hi"]), "hi")
        connections[0].invoke("shout", [1])
        check(told.get(timeout=10), [1])
    finally:
        for connection in connections:
            connection.stop()


ALL = [signalrcore_json, signalrcore_packed, signalrcore_transports, signalrcore_app_server]
