"""What pysignalr can do: WebSockets, JSON and MessagePack."""

import asyncio

from pysignalr.client import SignalRClient
from pysignalr.protocol.json import JSONProtocol
from pysignalr.protocol.messagepack import MessagepackProtocol


def check(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


async def talk(server, protocol):
    client = SignalRClient(
        f"{server['url']}/client/?hub=room",
        protocol=protocol,
        # Its access_token_factory is asked after the token was needed.
        headers={"Authorization": f"Bearer {server['token']}"},
    )
    opened, told = asyncio.Event(), asyncio.Queue()
    errors = asyncio.Queue()

    async def on_open():
        opened.set()

    async def name(_):
        return "Bob"

    client.on_open(on_open)
    client.on_error(errors.put)
    client.on("told", told.put)
    client.on("name", name)
    running = asyncio.create_task(client.run())
    try:
        await asyncio.wait_for(opened.wait(), 10)
        await work(client, told, errors)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def work(client, told, errors):
    done = asyncio.Queue()

    async def call(method, arguments):
        await client.send(method, arguments, done.put)
        return (await asyncio.wait_for(done.get(), 10)).result

    check(await call("add", [40, 2]), 42)
    check(await call("echo_text", ["ä\n€" * 1000]), "ä\n€" * 1000)
    check(await call("ask", []), "it is Bob")
    for number in range(5):
        await client.send("tell_me", [number])
    seen = [await asyncio.wait_for(told.get(), 10) for _ in range(5)]
    check(seen, [[number] for number in range(5)])
    await call("fail", [True])
    error = await asyncio.wait_for(errors.get(), 10)
    assert error.error.endswith("HubException: as you wish"), error.error
    items, ended = [], asyncio.Event()

    async def note(item):
        items.append(item)

    async def end(_):
        ended.set()

    await client.stream("count", [5, False], note, end)
    await asyncio.wait_for(ended.wait(), 10)
    check(items, [0, 1, 2, 3, 4])
    async with client.client_stream("sum") as stream:
        for number in range(1, 21):
            await stream.send(number)
    check(await asyncio.wait_for(told.get(), 10), [210])


async def pysignalr_json(server):
    await talk(server, JSONProtocol())


async def pysignalr_packed(server):
    await talk(server, MessagepackProtocol())


async def pysignalr_app_server(server):
    """Against the app server of the benchmark, at two nodes."""
    opened, told, done = asyncio.Queue(), asyncio.Queue(), asyncio.Queue()
    clients = []
    for url in [server["url"], server["other"]]:
        client = SignalRClient(
            f"{url}/client/?hub=far",
            headers={"Authorization": f"Bearer {server['token']}"},
        )
        client.on_open(lambda: opened.put(True))
        client.on("tick", told.put)
        clients.append(client)
    running = [asyncio.create_task(client.run()) for client in clients]
    try:
        for _ in clients:
            await asyncio.wait_for(opened.get(), 10)
        await clients[0].send("echo", ["hi"], done.put)
        check((await asyncio.wait_for(done.get(), 10)).result, "hi")
        await clients[0].send("shout", [1])
        check(await asyncio.wait_for(told.get(), 10), [1])
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


ALL = [pysignalr_json, pysignalr_packed, pysignalr_app_server]
