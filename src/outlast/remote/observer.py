"""The eyes of a client: what it looks at for a server. No answer opens a folder, or has a secrets file read out.

The looking itself is that of an embedded home (`handoffs/observer.py`); what may be asked is `observe.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.files.root import own_place_of
from outlast.handoffs.contract import rule_of
from outlast.handoffs.observer import Here
from outlast.secrets.find import is_secret_file

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Binding, Contract, Form, Handoff
    from outlast.home.home import Runtime

_SECRET = "is a secrets file, and is not read for a server"
_CONTENT = ("contains", "sha256")  # rules that tell of content, guess by guess


class OwnEyes(Here):
    """Looks where the caller is, where he says, and where this client has bound files; nowhere else."""

    def __init__(self) -> None:
        self._bound: set[Path] = set()

    def place(self, runtime: Runtime, handoff: Handoff, given: str | None) -> Path | None:
        return own_place_of(runtime, handoff, given, self._bound)

    def bind(self, runtime: Runtime, contract: Contract, root: Path) -> Binding | None:
        self._bound.add(root)
        return super().bind(runtime, contract, root)

    def broken(self, runtime: Runtime, handoff: Handoff, form: Form, root: Path) -> str:
        rule = rule_of(form)
        if rule is not None and rule.rule in _CONTENT and _is_secret(root, rule.file):
            return _SECRET
        return super().broken(runtime, handoff, form, root)


def _is_secret(root: Path, path: str) -> bool:
    """By its own name, or by that of what it leads to."""
    try:
        return is_secret_file(path) or is_secret_file(os.path.realpath(root / path))
    except (OSError, ValueError):  # no file can have such a name
        return False
