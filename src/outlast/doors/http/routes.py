"""Which path is which operation's: read as it was sent, so that what names something may have any character in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.routing import Match, Route

from outlast.operations.operation import PARAMETER


class OperationRoute(Route):
    """A path with its parameters, taken apart before it is decoded: `%2F` in an id divides nothing.

    `{name}` is one part of the path, and `{name:path}` as many as there are.
    """

    def __init__(self, path: str, endpoint: Callable[..., Awaitable[None]]) -> None:
        super().__init__(path, endpoint)
        self._sent = re.compile(_pattern(path), re.DOTALL)

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, dict[str, Any]]:
        """Whether it is this path, and what its parameters are."""
        found = self._sent.fullmatch(scope["raw_path"].decode("latin-1")) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        given = {name: unquote(value) for name, value in found.groupdict().items()}
        return Match.FULL, {"endpoint": self.endpoint, "path_params": given}


def _pattern(path: str) -> str:
    """The path as a regular expression: its words as they are, and a group for each parameter."""
    words = PARAMETER.split(path)
    names = PARAMETER.finditer(path)
    return "".join(
        re.escape(word) if at % 2 == 0 else f"(?P<{word}>{'.*' if ':path' in next(names)[0] else '[^/]+'})"
        for at, word in enumerate(words)
    )
