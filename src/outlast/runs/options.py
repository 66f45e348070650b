"""How a call of a flow is asked for, besides its inputs: one frozen value from every door to `begin`.

What starting over would repeat: effects that runs have done, or may have, in words for whoever decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import moment
from outlast.errors import OptionInvalid, RepeatsEffects
from outlast.ledger.journal import Row, decode_payload
from outlast.runs import journal
from outlast.runs.call import GOOD, Call, Ledger, Past, fold, labels
from outlast.runs.look import UNREADABLE
from outlast.store.contract import Reading, RunRow
from outlast.values.frozen import NamedTuple, dataclass

if TYPE_CHECKING:
    from outlast.store.contract import FinishedRow


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller says of the run that is to be started, continued or repeated."""

    task: str | None = None  # None: the caller names none, and it is made of the flow and its inputs
    fresh: bool = False  # give an unfinished run up
    session: str = ""
    trace_id: str = ""
    meta: Mapping[str, Any] | None = None
    again: bool = False  # a finished named task is to happen once more
    yes: bool = False  # whatever effects are repeated by that, they may be
    effects: tuple[str, ...] = field(default=())  # or only those, by the names of their steps
    operation_id: str | None = None
    wait: bool | float = False  # while somebody else runs it, wait for its end: for so many seconds, or until it comes
    returns: bool = False  # the caller is given the outcome by this call itself, as by `run`

    @property
    def named(self) -> bool:
        """Whether the caller gave the task its name: then it happens once."""
        return self.task is not None

    def said(self) -> list[Any]:
        """What makes two calls with one operation_id the same one. How they are traced does not."""
        return [self.task, self.fresh, self.session, dict(self.meta or {}), self.again]


AS_EVER = Options()
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "again": ("bool", (bool,)),
    "effects": ("list of names", (list, tuple)),
    "operation_id": ("text", (str, type(None))),
    "wait": ("bool or number of seconds", (bool, int, float)),
    "yes": ("bool", (bool,)),
}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_options` was given, as `Options` takes it. Raises OptionInvalid."""
    known = ", ".join(_KINDS)
    for name, value in given.items():
        if name not in _KINDS:
            raise OptionInvalid(name, "there is no such option", known)
        if not _fits(name, value):
            raise OptionInvalid(name, f"it is {value!r:.100}, which is no {_KINDS[name][0]}", known)
    return {name: tuple(value) if name == "effects" else value for name, value in given.items()}


def _fits(name: str, value: Any) -> bool:
    if name == "effects":
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if name == "wait":
        return isinstance(value, int | float) and value >= 0
    return isinstance(value, _KINDS[name][1])


SHOWN = 80  # characters of a result


class DoneEffect(NamedTuple):
    """An effect that was done, or is in doubt; or a run of which nobody knows any more what it did."""

    step: str  # what people call it
    name: str  # of its step, for all its calls; empty when nobody knows
    run: str
    key: str
    at: int
    result: str  # in short; of a run that nobody knows of, why
    in_doubt: bool = False

    @property
    def says(self) -> str:
        if not self.name:
            return f"whatever run {self.run} did, {self.result}"
        when = f"{moment(self.at):%Y-%m-%d %H:%M:%S} UTC"
        what = "in doubt since" if self.in_doubt else "done"
        return f"{self.step} (key {self.key}, {what} {when}{f', result {self.result}' if self.result else ''})"

    def told(self) -> dict[str, Any]:
        """The same for the record and for every door."""
        at = moment(self.at).isoformat() if self.at else ""
        kept = {"step": self.step, "run": self.run, "key": self.key, "at": at, "result": self.result}
        return kept | {"in_doubt": self.in_doubt, "says": self.says}


def agreed(
    look: Reading, how: str, task: str, runs: Iterable[RunRow | FinishedRow], options: Options
) -> list[dict[str, Any]]:
    """The effects of these runs, the newest first, if the caller agrees that they happen again.

    Raises RepeatsEffects, naming every one.
    """
    found: dict[Any, DoneEffect] = {}
    known = list(runs)
    for row in known:
        for place, effect in effects_of_run(look, row):
            found.setdefault(place, effect)
    return agree(how, task, known[0].id, found.values(), options)


def agree(how: str, task: str, run_id: str, effects: Iterable[DoneEffect], options: Options) -> list[dict[str, Any]]:
    """These effects, if the caller agrees that they happen again. Raises RepeatsEffects, naming every one."""
    found = list(effects)
    told = [effect.told() for effect in found]
    if not options.yes and not all({effect.step, effect.name} & set(options.effects) for effect in found):
        raise RepeatsEffects(how, task, run_id, told)
    return told


def effects_of_run(look: Reading, run: RunRow | FinishedRow) -> Iterator[tuple[Any, DoneEffect]]:
    """The effects of a run and of its children, each with what it is known by in any run of the flow."""
    if getattr(run, "removed", 0):
        yield run.id, _unknown(run.id, "which was removed")
        return
    try:
        rows, flaws, _ = journal.read(look, run)
        yield from effects_that(run.id, fold(rows, flaws), rows)
    except UNREADABLE:
        yield run.id, _unknown(run.id, "whose records cannot be read")
    for child in look.children_of(run.id):
        yield from effects_of_run(look, child)


def effects_that(run_id: str, ledger: Ledger, rows: list[Row]) -> Iterator[tuple[Call | str, DoneEffect]]:
    """The effects that a run itself has done, or may have, each with its call."""
    names = labels(rows)
    for past in ledger.calls.values():
        if past.kind == "effect" and not past.reused and _may_have_happened(past):
            yield past.call, _effect(run_id, past, names)
    if ledger.lost:
        yield run_id, _unknown(run_id, "whose records cannot be read")


def _unknown(run_id: str, why: str) -> DoneEffect:
    return DoneEffect("", "", run_id, "", 0, why)


def _may_have_happened(past: Past) -> bool:
    return past.in_doubt or (past.last.delivered and past.last.status in GOOD)


def _effect(run_id: str, past: Past, names: dict[Call, str]) -> DoneEffect:
    last = past.last
    step = names.get(past.call, past.call.step)
    at = last.ended_at or last.started_at
    return DoneEffect(step, past.call.step, run_id, last.key, at, _result(past), past.in_doubt)


def _result(past: Past) -> str:
    kept = decode_payload(past.payload) if past.payload else None
    if kept is None or (kept.result is msgspec.UNSET and not kept.blob):
        return ""
    text = "large" if kept.blob else bytes(kept.result).decode()  # type: ignore[arg-type]
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
