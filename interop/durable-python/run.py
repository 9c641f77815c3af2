"""Runs scenarios of durabletask: run.py <what the server said> [names].

Without names all of them run, one after another.
"""

import sys
import time
import traceback

import entity_scenarios
import instance_scenarios
import lock_scenarios
import orchestration_scenarios
import payload_scenarios
import upstream_entities
import upstream_orchestrations
from server import Server

ALL = (
    orchestration_scenarios.ALL + instance_scenarios.ALL + entity_scenarios.ALL + lock_scenarios.ALL
    + payload_scenarios.ALL + upstream_orchestrations.ALL + upstream_entities.ALL
)


def main():
    server = Server(sys.argv[1])
    failed = 0
    for scenario in ALL:
        if sys.argv[2:] and scenario.__name__ not in sys.argv[2:]:
            continue
        started = time.monotonic()
        try:
            scenario(server)
            said = "ok"
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
            failed += 1
            said = "FAILED"
        print(f"{said} {scenario.__name__} {time.monotonic() - started:.1f} s", flush=True)
    unknown = set(sys.argv[2:]) - {each.__name__ for each in ALL}
    sys.stdout.flush()
    sys.exit(1 if failed or unknown else 0)


main()
