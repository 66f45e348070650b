"""Errors of a server, made again here: the same class, code, facts and text as where they were raised."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from outlast import errors
from outlast.errors import Conflict, Invalid, NotFound, OutlastError, Refused, Unavailable

_SHOWN = 300  # characters of an answer that is not ours
_FAMILIES = {404: NotFound, 409: Conflict, 401: Refused, 403: Refused, 405: Refused}


class Problem(msgspec.Struct):
    """What a server answers when something went wrong."""

    code: str
    detail: str = ""
    advice: str = ""
    path: str | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


def problem_in(raw: bytes) -> Problem | None:
    """The problem that an answer tells of; None when it is not one of ours."""
    try:
        return msgspec.json.decode(raw, type=Problem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def error_of(status: int, raw: bytes, url: str) -> OutlastError:
    """The error that a server answered with."""
    problem = problem_in(raw)
    family = _FAMILIES.get(status, Unavailable if status >= 500 else Invalid)
    if problem is None:
        shown = raw[:_SHOWN].decode("utf-8", "replace").strip()
        said = f"{url} answered {status}" + (f": {shown}" if shown else "")
        return family(detail=f"{said}; see that it is an Outlast server of this version")
    return _made_again(problem, _kinds().get(problem.code, family))


@cache
def _kinds() -> dict[str, type[OutlastError]]:
    """Every error of ours by its code."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OutlastError)]
    return {kind.code: kind for kind in found}


def _made_again(problem: Problem, kind: type[OutlastError]) -> OutlastError:
    error = kind.__new__(kind)
    error.args, error.facts = tuple(problem.facts.values()), problem.facts  # facts may have any name
    if error.code == problem.code and _says(error) == (problem.detail, problem.advice):
        return error
    said = {"code": problem.code, "says": _literal(problem.detail), "advice": _literal(problem.advice)}
    error.__dict__.update(said)  # of another version: its own words, in the class that is nearest
    return error


def _says(error: OutlastError) -> tuple[str, str] | None:
    try:
        return error.detail, error.what_next
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return None


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
