"""Loops of a flow file. The items of a `foreach`, read from a file's lines, each named so that a resume knows it again.

Branches of a flow file in threads of their own, at most so many at once; all of them end before the flow goes on.

Marks: entries from which a resume can start reading, so that a long loop of commands resumes at once. A mark says how
many iterations of each loop are over and names the few older entries that still matter. What lies before it is never
needed to go on; `verify` checks it all the same.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.errors import Paused, Severed, Stopped
from outlast.flows.yaml.flow import unfit_for_a_variable
from outlast.flows.yaml.model import MOST_ITEMS, Command, FlowDefinition
from outlast.ledger.journal import CALLS, Header, Row, decode_header, facts_in, print_of
from outlast.runs.attempt import CURRENT
from outlast.runs.call import GOOD, Call, Ledger, Past
from outlast.runs.execution import Execution
from outlast.runs.rewind import BEHIND, NOT_REACHED, place_of
from outlast.store.contract import Writing
from outlast.values.ambient import begin
from outlast.values.codec import encode, identity
from outlast.values.late import late
from outlast.values.private import read_plain

if TYPE_CHECKING:
    from outlast.runs.outputs import files
else:
    files = late("outlast.runs.outputs.files")  # with the first mark

LINES_BYTES = 64 * 1024 * 1024
RECORDED = 1000  # characters of an item
_PLAIN = r"[\w.,:@+=%\-]{1,60}"
_UNFIT = r"[^\w.,:@+=%\-]+"
_SHOWN, _DIGITS = 40, 12


def text_of(item: Any) -> str:
    """An item as a command is given it: a text as it is, any other value as JSON."""
    return item if isinstance(item, str) else json.dumps(item, sort_keys=True, ensure_ascii=False)


def shown_item(item: Any) -> str:
    """An item for the record of an attempt; what is very long is cut, and says so."""
    text = text_of(item)
    return text if len(text) <= RECORDED else f"{text[:RECORDED]}… ({len(text):,} characters)"


def labelled(items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each item with the name of its place: the same item has the same name in any list, wherever it stands there."""
    seen: dict[str, int] = {}
    for item in items:
        label = _label(text_of(item))
        count = seen[label] = seen.get(label, 0) + 1
        yield (label if count == 1 else f"{label}#{count}"), item


def _label(text: str) -> str:
    """A text that is short and plain enough, or what is plain of it and a digest. `#` stands in no plain one."""
    if re.fullmatch(_PLAIN, text):
        return text
    return f"{re.sub(_UNFIT, '_', text)[:_SHOWN]}#{identity(text.encode())[:_DIGITS]}"


def read_lines(step: str, file: Path, name: str) -> list[str]:
    """The lines of a file that are not empty. Raises ItemsUnreadable, naming the line that cannot be an item."""
    try:
        raw = read_plain(os.path.realpath(file), LINES_BYTES + 1)
    except (OSError, ValueError) as error:
        raise errors.ItemsUnreadable(step, name, getattr(error, "strerror", None) or str(error)) from error
    if len(raw) > LINES_BYTES:
        raise errors.ItemsUnreadable(step, name, f"it has more than {LINES_BYTES:,} bytes")
    found: list[str] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            found.append(_line(step, name, number, line.removesuffix(b"\r")))
    if len(found) > MOST_ITEMS:
        raise errors.ItemsUnreadable(step, name, f"it has {len(found):,} lines, and {MOST_ITEMS:,} items are the most")
    return found


def _line(step: str, name: str, number: int, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise errors.ItemsUnreadable(step, name, f"line {number} is not UTF-8") from None
    if fault := unfit_for_a_variable("OUTLAST_ITEM", text):
        raise errors.ItemsUnreadable(step, name, f"line {number} {fault}")
    return text


_LOOK_SECONDS = 0.1

Work = Callable[[], None]


class _Shared:
    """Work that several threads take from, in order. What ends the run ends that; a failure or a wait does not."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works, self._next = works, 0
        self._lock = threading.Lock()
        self._over = False
        self.ended: dict[int, BaseException] = {}

    def work(self) -> None:
        while (at := self._take()) is not None:
            try:
                self._works[at]()
            except BaseException as error:
                self.ended[at] = error
                self._over = self._over or not isinstance(error, Exception | Paused)

    def _take(self) -> int | None:
        with self._lock:
            if self._over or self._next >= len(self._works):
                return None
            self._next += 1
            return self._next - 1


def side_by_side(works: Sequence[Work], limit: int = 0) -> list[BaseException]:
    """Do all of it, `limit` pieces at once (0: all). Gives what they raised, in their order. Raises NoThread."""
    shared, threads = _Shared(works), list[threading.Thread]()
    for _ in range(min(limit or len(works), len(works))):
        thread = threading.Thread(target=shared.work, daemon=True)
        try:
            begin(thread, "a branch")
        except errors.NoThread:
            if not threads:  # else those that have begun do its work
                raise
            break
        threads.append(thread)
    for thread in threads:
        while thread.is_alive():  # in short waits: a signal must find the main thread awake
            thread.join(_LOOK_SECONDS)
    return [shared.ended[at] for at in sorted(shared.ended)]


def raise_first(what: str, raised: Sequence[BaseException]) -> None:
    """What becomes of a flow whose branches ended so: taken from it, failed, asked to stop, or waiting."""
    for kind in (Severed, Exception, Stopped, Paused, BaseException):
        found = [error for error in raised if isinstance(error, kind)]
        if found and kind is Exception and len(found) > 1:
            failures = [error for error in found if isinstance(error, Exception)]
            raise ExceptionGroup(f"{len(failures)} {what} failed", failures)
        if found:
            if isinstance(found[0], Paused):
                frame = CURRENT.get()
                if frame is not None:
                    frame.execution.paused = True
            raise found[0]


# -- marks -------------------------------------------------------------------------------------------

EVERY = 256  # entries between two marks, at least


def loops_of(ledger: Ledger) -> dict[str, int]:
    """How many iterations of each loop are over, by its path."""
    return dict(ledger.mark.get("loops", {})) if ledger.mark else {}


def take_state(execution: Execution) -> None:
    """The state as it was at the mark: what wrote it is not replayed."""
    kept = (execution.ledger.mark or {}).get("state", {})
    execution.state.apply({name: encode(value[0]) for name, value in kept.items()})


def count_over(execution: Execution) -> int:
    """How many finished steps the mark spares a resume: all there were, less those that it is given again."""
    past = (each for each in execution.ledger.calls.values() if each.seq < execution.marked)
    again = sum(1 for each in past if _is_done(each.last))
    return max(0, int((execution.ledger.mark or {}).get("done", 0)) - again)


def take_last(execution: Execution) -> Past | None:
    """The step that was done last before the mark: it hands over to the next, and is not asked for again."""
    last = (execution.ledger.mark or {}).get("last")
    past = execution.ledger.calls.pop(Call(*last), None) if last else None
    if past is not None:
        past.asked = True  # an effect of the next iteration is another one
    return past


def mark(execution: Execution, loops: Mapping[str, int], last: Call | None) -> None:
    """Write a mark, if enough has happened since the last one. Every call of these iterations has its outcome."""
    if execution.hold.head - execution.marked < EVERY or execution.ledger.damaged:  # it would vouch for what is not
        return
    live = {path: number for path, number in loops.items() if not is_over(path.rpartition("/")[0] + "/", loops)}
    state = {name: [value] for name, value in execution.state.items()}
    key, since = execution.hold.run_key, max(execution.marked - 1, 0)
    rows = execution.store.read(lambda look: look.journal_of(key, since))
    before = facts_in(rows[0]) if execution.marked and rows else {}
    keep = _kept(execution, rows, before.get("keep", {}), live, last)
    done = int(before.get("done", 0)) + sum(_is_done(decode_header(row.header)) for row in rows)
    written = _written(execution, rows, before.get("outputs", {}), keep)
    facts = {"loops": live, "keep": keep, "state": state, "last": last, "done": done, "outputs": written}

    def work(tx: Writing) -> None:
        execution.marked = execution.hold.head  # here: others may have written by the time the commit is known
        tx.set_run_mark(execution.hold.run_key, execution.marked)

    execution.writer.commit_work(work, execution.writer.fact("run", "mark", facts))


def _kept(
    execution: Execution, rows: list[Row], older: Mapping[str, str], loops: Mapping[str, int], last: Call | None
) -> dict[str, str]:
    """Entries before the mark that a resume needs, with the digests of their headers: none of a loop that is over."""
    newer = {str(row.seq): print_of(row.header) for row in rows if _matters(decode_header(row.header), loops, last)}
    if not older:
        return newer
    known = _entries(execution, older)
    still = {str(row.seq) for row in known if _matters(decode_header(row.header), loops)}
    return {seq: found for seq, found in older.items() if seq in still} | newer


def _written(execution: Execution, rows: list[Row], older: Mapping[str, str], keep: Collection[str]) -> dict[str, str]:
    """Entries of rounds that are over by which the files of steps are known, with the digests of their headers."""
    known = _entries(execution, older) if older else []
    found = [row for pair in files.to_keep([*known, *rows]).values() for row in pair]
    return {str(row.seq): print_of(row.header) for row in found if str(row.seq) not in keep}


def _entries(execution: Execution, seqs: Iterable[str]) -> list[Row]:
    return execution.store.read(lambda look: look.entries_of(execution.hold.run_key, [int(seq) for seq in seqs]))


def _is_done(header: Header) -> bool:
    return header.kind in CALLS and header.delivered and header.status in GOOD


def _matters(header: Header, loops: Mapping[str, int], last: Call | None = None) -> bool:
    if header.kind == "run":
        return header.name in ("accepted", "needs", "rewound", "reached", "forked", "failed", "moved")
    if header.kind == "emit":
        return False
    if last is not None and (header.scope, header.name, header.inputs, header.occurrence) == last:
        return True
    return not is_over(header.scope, loops)


def is_over(scope: str, loops: Mapping[str, int]) -> bool:
    """Whether a scope lies in an iteration that is over: `fix[3]/` when three iterations of `fix` are."""
    path = ""
    for part in scope.split("/")[:-1]:
        name, bracket, number = part.rpartition("[")
        if bracket and number[:-1].isdigit() and int(number[:-1]) <= loops.get(f"{path}{name}", 0):
            return True
        path += f"{part}/"
    return False


# -- going back to an earlier step -------------------------------------------------------------------


def go_back(execution: Execution, definition: FlowDefinition) -> None:
    """Where a step was left unfinished that says `resume_to`, forget what was done since that earlier step."""
    targets = {node.id: node.resume_to for node in definition.nodes() if isinstance(node, Command) and node.resume_to}
    # begun and did not deliver, or their failure ended the run: not those set aside
    named = (past for past in execution.ledger.calls.values() if past.call.step in targets and past.attempts)
    for past in [past for past in named if not past.finished and not past.aside]:
        scope, target = past.call.scope, targets[past.call.step]
        name, place = f"{scope}{past.call.step}", _place_of(execution.ledger, scope, target)
        if place and execution.ledger.went_back.get(name, 0) < execution.settings.crashes_before_asking:
            facts = {"to": place, "by": "the flow", "why": f"{name} says resume_to {target}", "from": name}
            execution.go_back(execution.writer.fact("run", "rewound", facts))


def _place_of(ledger: Ledger, scope: str, step: str) -> int:
    """Where the flow last came to a step in a scope (in a repeat, in the same iteration); 0 when it has not since."""
    alike = (past for past in ledger.calls.values() if (past.call.scope, past.call.step) == (scope, step))
    places = [place for past in alike if (place := place_of(ledger, past.call)) < NOT_REACHED]
    return max([place for place in places if place < BEHIND] or places, default=0)
