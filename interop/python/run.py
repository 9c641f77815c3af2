"""Scenarios of azure-eventhub against the server named on the command line."""

import asyncio
import sys
import time
import traceback

import asyncio_scenarios
import sync_scenarios
from server import Server

HUBS = ["houses:4", "positions:1", "keys:16", "even:4", "typed:1", "epochs:1", "large:1"]


def main():
    failed = 0
    with Server(sys.argv[1], *HUBS) as server:
        for scenario in sync_scenarios.ALL + asyncio_scenarios.ALL:
            started = time.monotonic()
            name = f"{scenario.__module__}.{scenario.__name__}"
            try:
                if asyncio.iscoroutinefunction(scenario):
                    asyncio.run(scenario(server))
                else:
                    scenario(server)
                said = "ok"
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                failed += 1
                said = "FAILED"
            print(f"{said} {name} {time.monotonic() - started:.1f} s", flush=True)
    sys.exit(1 if failed else 0)


main()
