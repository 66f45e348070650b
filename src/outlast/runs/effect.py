"""Effects: what a probe may answer of one in doubt, and which of them starting over would repeat.

Where a call is judged in doubt: `Past.in_doubt` in call.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from outlast import errors
from outlast.clock import moment
from outlast.flows.spec import Signature
from outlast.ledger.journal import Row, decode_payload
from outlast.runs import journal
from outlast.runs.call import GOOD, Call, Ledger, Past, fold, labels
from outlast.runs.run import Options
from outlast.store.contract import FinishedRow, Reading, RunRow
from outlast.values.frozen import NamedTuple


class Happened(Struct, frozen=True):
    """The probe found it: the effect has happened, and this is its result."""

    value: Any = None


class ProbeAnswer:
    """A probe's answer that carries nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOT_DONE: Final = ProbeAnswer("NOT_DONE")
UNKNOWN: Final = ProbeAnswer("UNKNOWN")
Confirmed = Happened | ProbeAnswer


def probe_arguments(
    confirm: Callable[..., Any], inputs: Mapping[str, Any], key: str, resource: Callable[[str], Any]
) -> dict[str, Any]:
    """What to call a probe with: those of the effect's inputs that it names, the key, its own resources."""
    signature = Signature(confirm)
    offered = {**inputs, "key": key, **dict.fromkeys(signature.keyed, key)}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters):
        given = dict(offered)
    else:
        names = [p.name for p in signature.parameters if p.name not in signature.injected]
        given = {name: offered[name] for name in names if name in offered}
    return given | {name: resource(key_) for name, key_ in signature.injected.items()}


def understood(answer: Any) -> Confirmed:
    """A probe's answer, checked. Raises TypeError for anything that is no answer."""
    if isinstance(answer, Happened) or answer is NOT_DONE or answer is UNKNOWN:
        return answer
    raise TypeError(f"a confirm probe returns Happened(value), NOT_DONE or UNKNOWN, not {answer!r}")


# -- effects that were done, or may have been ---------------------------------------------------------

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
        raise errors.RepeatsEffects(how, task, run_id, told)
    return told


def effects_of_run(look: Reading, run: RunRow | FinishedRow) -> Iterator[tuple[Any, DoneEffect]]:
    """The effects of a run and of its children, each with what it is known by in any run of the flow."""
    if getattr(run, "removed", 0):
        yield run.id, _unknown(run.id, "which was removed")
        return
    try:
        rows, flaws, _ = journal.read(look, run)
        yield from effects_that(run.id, fold(rows, flaws), rows)
    except journal.UNREADABLE:
        yield run.id, _unknown(run.id, "whose records cannot be read")
    for child in look.children_of(run.id):
        yield from effects_of_run(look, child)


def effects_that(run_id: str, ledger: Ledger, rows: list[Row]) -> Iterator[tuple[Call | str, DoneEffect]]:
    """The effects that a run itself has done, or may have, each with its call."""
    names = labels(rows)
    for past in ledger.calls.values():
        if past.kind != "effect" or past.reused:
            continue
        last = past.last
        if past.in_doubt or (last.delivered and last.status in GOOD):
            step = names.get(past.call, past.call.step)
            at = last.ended_at or last.started_at
            yield past.call, DoneEffect(step, past.call.step, run_id, last.key, at, _result(past), past.in_doubt)
    if ledger.lost:
        yield run_id, _unknown(run_id, "whose records cannot be read")


def _unknown(run_id: str, why: str) -> DoneEffect:
    return DoneEffect("", "", run_id, "", 0, why)


def _result(past: Past) -> str:
    kept = decode_payload(past.payload) if past.payload else None
    if kept is None or (kept.result is msgspec.UNSET and not kept.blob):
        return ""
    text = "large" if kept.blob else bytes(kept.result).decode()  # type: ignore[arg-type]
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
