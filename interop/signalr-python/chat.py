"""A client that talks to all others: chat.py <what the server said>.

It says when it is connected, sends each line of its input to all clients of the hub, and
prints what it receives, until its input ends.
"""

import asyncio
import json
import sys

from pysignalr.client import SignalRClient


async def main():
    server = json.loads(sys.argv[1])
    client = SignalRClient(
        f"{server['url']}/client/?hub=room",
        headers={"Authorization": f"Bearer {server['token']}"},
    )

    async def on_open():
        print("connected", flush=True)

    async def told(arguments):
        print(f"told {arguments[0]}", flush=True)

    client.on_open(on_open)
    client.on("told", told)
    running = asyncio.create_task(client.run())
    while line := await asyncio.to_thread(sys.stdin.readline):
        await client.send("tell_all", [line.strip()])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


asyncio.run(main())
