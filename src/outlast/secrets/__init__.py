"""Secrets: what they look like, found, refused, masked. `SecretRules` are those of a home, which is opened with them.

Whoever looks for secrets loads more: most commands look for none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.secrets import find as _find
    from outlast.secrets import own as _own
    from outlast.secrets import rules as _rules
    from outlast.secrets.rules import SecretRule
else:
    _find = late("outlast.secrets.find")
    _own = late("outlast.secrets.own")
    _rules = late("outlast.secrets.rules")

FILE = "secrets.yaml"


class SecretRules:
    """What secrets look like in a home: the rules built in, those of its settings and those of its own file."""

    def __init__(self, own: tuple[SecretRule, ...]) -> None:
        self.own = own
        self._rules: tuple[SecretRule, ...] | None = None

    @property
    def rules(self) -> tuple[SecretRule, ...]:
        """All of them."""
        if self._rules is None:
            self._rules = (*_rules.RULES, *self.own)
        return self._rules

    def check(self, value: Any, path: str) -> None:
        """Raises SecretFound for a value in which there is one."""
        _find.check(value, path, self.rules)

    def masked(self, value: Any, path: str) -> tuple[Any, list[str]]:
        """The value with those in it masked, and where they were."""
        return _find.masked(value, path, self.rules)

    def are_in(self, content: bytes, *, own: bool = False) -> bool:
        """Whether there is one in some content; `own`: by the rules of one's own alone."""
        return any(True for _ in _find.find(content.decode("utf-8", "replace"), self.own if own else self.rules))

    def are_named(self, path: str) -> bool:
        """Whether a file is named like one that has secrets in it."""
        return _find.is_secret_file(path)


def read_own(home: Path, given: Mapping[str, Any]) -> tuple[SecretRule, ...]:
    """The rules of one's own: those `given`, and those of the file; most homes have none.

    Raises SecretPatternInvalid with the place of the first mistake.
    """
    path = home / FILE
    if not given and not os.path.lexists(path):
        return ()
    return _own.all_own(given, path)
