"""The outside world: a server on loopback that counts requests by their key, and says whether one has happened."""

import socketserver
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class World:
    """What was asked of the world, by order and key."""

    def __init__(self) -> None:
        self.port = 0
        self.posts: Counter[tuple[str, str, str]] = Counter()  # (order, effect, key)
        self.did: Counter[tuple[str, str]] = Counter()  # (order, command)
        self.contacts = 0  # how often anybody came
        self.is_last = False  # the last command of an order has just been done
        self._lock = threading.Lock()

    def answer(self, line: str) -> str:
        verb, *words = line.split()
        with self._lock:
            self.contacts += 1
            if verb == "post":
                order, effect, key = words
                self.posts[order, effect, key] += 1
                return "yes"
            if verb == "ask":
                return "yes" if any(key == words[0] for _, _, key in self.posts) else "no"
            order, command = words
            self.did[order, command] += 1
            self.is_last = command == "last"
            return "yes"

    def effects_of(self, order: str) -> dict[str, list[int]]:
        """How often each effect was asked for: a number for every key."""
        found: dict[str, list[int]] = {}
        with self._lock:
            for (whose, effect, _), count in sorted(self.posts.items()):
                if whose == order:
                    found.setdefault(effect, []).append(count)
        return found


@contextmanager
def a_world() -> "Iterator[World]":
    """A world that is there until the block ends."""
    world = World()

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode()
            if line.endswith("\n"):  # one that was cut off asks for nothing
                self.wfile.write(f"{world.answer(line)}\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

        def handle_error(self, request: object, client_address: object) -> None:
            """Who asked was killed before it was answered: that is what this is about."""

    with Server(("127.0.0.1", 0), Answer) as server:
        world.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield world
        finally:
            server.shutdown()
            thread.join()
