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


def read_own(home: Path, given: Mapping[str, Any]) -> tuple[SecretRule, ...]:
    """The rules of one's own: those `given`, and those of the file; most homes have none.

    Raises SecretPatternInvalid with the place of the first mistake.
    """
    path = home / FILE
    if not given and not os.path.lexists(path):
        return ()
    from outlast.secrets.own import all_own

    return all_own(given, path)
