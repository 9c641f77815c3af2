"""Runs scenarios of azure-eventhub: run.py <what the server said> [names].

Without names all of them run, one after another.
"""

import asyncio
import sys
import time
import traceback

import asyncio_scenarios
import blob_scenarios
import sync_scenarios
from server import Server

ALL = sync_scenarios.ALL + asyncio_scenarios.ALL + blob_scenarios.ALL


def main():
    server = Server(sys.argv[1])
    failed = 0
    for scenario in ALL:
        if sys.argv[2:] and scenario.__name__ not in sys.argv[2:]:
            continue
        started = time.monotonic()
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
        print(f"{said} {scenario.__name__} {time.monotonic() - started:.1f} s", flush=True)
    unknown = set(sys.argv[2:]) - {each.__name__ for each in ALL}
    sys.exit(1 if failed or unknown else 0)


main()
