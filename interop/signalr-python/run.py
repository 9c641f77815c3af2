"""Runs scenarios of two SignalR clients: run.py <what the server said> [names].

Without names all of them run, one after another.
"""

import asyncio
import json
import sys
import time
import traceback

import pysignalr_scenarios
import signalrcore_scenarios


def main():
    server = json.loads(sys.argv[1])
    failed = 0
    scenarios = pysignalr_scenarios.ALL + signalrcore_scenarios.ALL
    for scenario in scenarios:
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
    unknown = set(sys.argv[2:]) - {each.__name__ for each in scenarios}
    sys.exit(1 if failed or unknown else 0)


main()
