"""A worker with one activity in Python, until its input ends: languages.py <server>.

Its orchestration is in Java, and the other activities are in other languages; it sets no
filters, so that it is offered those too.
"""

import sys

from server import Server


def say_python(_, number):
    return f"python {number}"


def main():
    with Server(sys.argv[1]).new_worker() as worker:
        worker.add_activity(say_python)
        worker.start()
        sys.stdin.read()


main()
