"""A command of the flow: `command.py NAME`. An effect is a request to the world; a probe asks the world.

`command.py NAME` works a little and leaves a file. `command.py post NAME` does the effect; `command.py ask` says by its
exit code whether it happened, as a probe does: 0 it did, 1 it did not, anything else: nobody knows.
"""

import os
import socket
import sys
import time


def told(line: str) -> str:
    """What the world answers to a line."""
    with socket.create_connection(("127.0.0.1", int(os.environ["WORLD_PORT"])), timeout=10) as line_to_it:
        line_to_it.sendall(f"{line}\n".encode())
        line_to_it.shutdown(socket.SHUT_WR)
        return line_to_it.makefile().readline().strip()


def work(name: str) -> None:
    with open(f"{name}.new", "w") as file:
        file.write(f"{os.environ['OUTLAST_INPUT_ORDER']} {name}\n")
        time.sleep(0.01)
    os.replace(f"{name}.new", f"{name}.txt")
    told(f"did {os.environ['OUTLAST_INPUT_ORDER']} {name}")


def main(words: list[str]) -> int:
    key = os.environ["OUTLAST_EFFECT_KEY"]
    if words[0] == "post":
        return int(told(f"post {os.environ['OUTLAST_INPUT_ORDER']} {words[1]} {key}") != "yes")
    if words[0] == "ask":
        return {"yes": 0, "no": 1}.get(told(f"ask {key}"), 2)
    work(words[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
