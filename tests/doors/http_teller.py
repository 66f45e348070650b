"""A process beside the server that writes into the journal of a run: `http_teller.py HOME EVENTS`.

It says the run's id, writes so many events for each line that it reads, and ends the run when there are no more.
"""

import sys

from outlast import Outlast


def main(home: str, events: int) -> None:
    with Outlast(home) as outlast, outlast.open("told") as run:
        print(run.id, flush=True)
        for _ in sys.stdin:
            for number in range(events):
                run.emit("told", {"number": number})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
