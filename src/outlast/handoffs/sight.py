"""What somebody saw of a handoff's files where they are, told to one who does not look: a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outlast.handoffs.handoff import Binding, Form
from outlast.handoffs.verdict import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one check that was run where the files are."""

    check: Form
    passed: bool
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""  # the blob that holds what it printed
    note: str = ""
    host: str = ""  # where it was run


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How the files of one handoff were found. An empty root: they were looked for, and are not there."""

    handoff_id: str
    root: str = ""
    binding: Binding | None = None
    relation: Relation = "none"
    musts: Mapping[str, str] = field(default_factory=dict)  # of every rule about a file, by key: "" or what is wrong
    ran: tuple[Ran, ...] | None = None  # None: no check was run
