"""A process that appends to one session: `session_worker.py HOME NAME COUNT`. It says each seq once it has it."""

import json
import sys

from outlast import Outlast


def main(home: str, name: str, count: int) -> None:
    sys.stdin.readline()
    with Outlast(home) as outlast:
        for number in range(count):
            message = outlast.sessions.append("s", "user", f"{name}-{number}")
            print(json.dumps([message.seq, message.content]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
