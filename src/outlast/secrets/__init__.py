"""Secrets: what they look like, found, refused, masked. `SecretRules` are those of a home, which is opened with them.

Whoever looks for secrets loads more: most commands look for none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.secrets.rules import SecretRule

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
            from outlast.secrets.rules import RULES  # late: most commands look for no secret

            self._rules = (*RULES, *self.own)
        return self._rules

    def check(self, value: Any, path: str) -> None:
        """Raises SecretFound for a value in which there is one."""
        from outlast.secrets.find import check  # late, as above

        check(value, path, self.rules)

    def masked(self, value: Any, path: str) -> tuple[Any, list[str]]:
        """The value with those in it masked, and where they were."""
        from outlast.secrets.find import masked

        return masked(value, path, self.rules)

    def are_in(self, content: bytes, *, own: bool = False) -> bool:
        """Whether there is one in some content; `own`: by the rules of one's own alone."""
        from outlast.secrets.find import find

        return any(True for _ in find(content.decode("utf-8", "replace"), self.own if own else self.rules))

    def are_named(self, path: str) -> bool:
        """Whether a file is named like one that has secrets in it."""
        from outlast.secrets.find import is_secret_file

        return is_secret_file(path)


def read_own(home: Path, given: Mapping[str, Any]) -> tuple[SecretRule, ...]:
    """The rules of one's own: those `given`, and those of the file; most homes have none.

    Raises SecretPatternInvalid with the place of the first mistake.
    """
    path = home / FILE
    if not given and not os.path.lexists(path):
        return ()
    from outlast.secrets.own import all_own

    return all_own(given, path)
