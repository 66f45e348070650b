"""What requests say of files: what a client found where they are. The server looks at none itself."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.doors.http.calls import Body
from outlast.errors import RequestInvalid
from outlast.handoffs.given_observer import NOBODY, RequestObserver
from outlast.handoffs.handoff import Binding, Form, Mode
from outlast.handoffs.observer import Eyes
from outlast.handoffs.reported import Ran, Sighting
from outlast.handoffs.verdict import Relation


class FoundFile(Body):
    """One file as it was found."""

    mode: Mode
    digest: str = ""
    blob: str = ""
    size: int = 0
    kept: str = ""
    why: str = ""
    leads: str = ""


class FoundFiles(Body):
    """The files of a handoff and their repository, as they were found."""

    root: str
    host: str
    files: dict[str, FoundFile] = msgspec.field(default_factory=dict)
    folders: tuple[str, ...] = ()
    environment: dict[str, FoundFile] = msgspec.field(default_factory=dict)
    musts: dict[str, FoundFile] = msgspec.field(default_factory=dict)
    commit: str = ""
    branch: str = ""
    dirty: str = ""
    dirty_files: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    patch: str = ""
    patch_why: str = ""
    prefix: str = ""
    known_by: tuple[str, ...] = ()
    unkept: dict[str, str] = msgspec.field(default_factory=dict)


class RanCheck(Body):
    """What came of one check."""

    check: Form
    passed: bool
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""
    note: str = ""
    host: str = ""


class Observation(Body):
    """What was found of the files of one handoff; without a root: they are not `here`."""

    handoff_id: str
    root: str = ""
    here: str = ""
    binding: FoundFiles | None = None
    relation: Relation = "none"
    musts: dict[str, str] = msgspec.field(default_factory=dict)
    renamed: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    ran: tuple[RanCheck, ...] | None = None


class Looked(Body):
    """Base of what calls take that are about files: what the client found of them."""

    observed: tuple[Observation, ...] = ()
    looks: bool = False


def eyes_of(body: Any) -> Eyes:
    """What a request knows of files. Raises RequestInvalid."""
    if hasattr(body, "observed"):
        sightings = {each.handoff_id: _as(each, Sighting) for each in body.observed}
        if len(sightings) != len(body.observed):
            raise RequestInvalid("observed", "a handoff is there twice")
        return RequestObserver(sightings=sightings, asks=body.looks)
    if hasattr(body, "binding"):
        binding = None if body.binding is None else _as(body.binding, Binding)
        ran = None if body.ran is None else tuple(_as(each, Ran) for each in body.ran)
        return RequestObserver(binding=binding, ran=ran, asks=body.looks)
    return NOBODY


def _as(found: Body, kind: type) -> Any:
    return msgspec.convert(msgspec.to_builtins(found), kind)
