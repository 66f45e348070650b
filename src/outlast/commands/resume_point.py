"""Marks: entries from which a resume can start reading, so that a long loop of commands resumes at once.

A mark says how many iterations of each loop are over and names the few older entries that still matter. What lies
before it is never needed to go on; `verify` checks it all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from outlast.flows.yaml.model import Command, FlowDefinition
from outlast.ledger.journal import CALLS, Header, Row, decode_header, facts_in, print_of
from outlast.runs.call import GOOD, Call, Ledger, Past
from outlast.runs.execution import Execution
from outlast.runs.outputs.files import to_keep
from outlast.runs.rewind import BEHIND, NOT_REACHED, place_of
from outlast.store.contract import Writing
from outlast.values.codec import encode

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
    keep, done = _kept(execution, rows, live, last), _done(execution, rows)
    written = _written(execution, rows, keep)
    facts = {"loops": live, "keep": keep, "state": state, "last": last, "done": done, "outputs": written}

    def work(tx: Writing) -> None:
        execution.marked = execution.hold.head  # here: others may have written by the time the commit is known
        tx.set_run_mark(execution.hold.run_key, execution.marked)

    execution.writer.commit_work(work, execution.writer.fact("run", "mark", facts))


def _kept(execution: Execution, rows: list[Row], loops: Mapping[str, int], last: Call | None) -> dict[str, str]:
    """Entries before the mark that a resume needs, with the digests of their headers: none of a loop that is over."""
    key, older = execution.hold.run_key, facts_in(rows[0]).get("keep", {}) if execution.marked and rows else {}
    newer = {str(row.seq): print_of(row.header) for row in rows if _matters(decode_header(row.header), loops, last)}
    if not older:
        return newer
    known = execution.store.read(lambda look: look.entries_of(key, [int(seq) for seq in older]))
    still = {str(row.seq) for row in known if _matters(decode_header(row.header), loops)}
    return {seq: found for seq, found in older.items() if seq in still} | newer


def _written(execution: Execution, rows: list[Row], keep: Collection[str]) -> dict[str, str]:
    """Entries of rounds that are over by which the files of steps are known, with the digests of their headers."""
    key, older = execution.hold.run_key, facts_in(rows[0]).get("outputs", {}) if execution.marked and rows else {}
    known = execution.store.read(lambda look: look.entries_of(key, [int(seq) for seq in older])) if older else []
    found = [row for pair in to_keep([*known, *rows]).values() for row in pair]
    return {str(row.seq): print_of(row.header) for row in found if str(row.seq) not in keep}


def _done(execution: Execution, rows: list[Row]) -> int:
    """How many steps have their outcome, of all there were."""
    before = int(facts_in(rows[0]).get("done", 0)) if execution.marked and rows else 0
    return before + sum(map(_is_done, (decode_header(row.header) for row in rows)))


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
    for past in _unfinished(execution.ledger, targets):
        scope, target = past.call.scope, targets[past.call.step]
        name, place = f"{scope}{past.call.step}", _place_of(execution.ledger, scope, target)
        if place and execution.ledger.went_back.get(name, 0) < execution.settings.crashes_before_asking:
            _rewind(execution, name, target, place)


def _unfinished(ledger: Ledger, names: Collection[str]) -> list[Past]:
    """Calls of these steps that were begun and did not deliver, or whose failure ended the run: not those set aside."""
    named = (past for past in ledger.calls.values() if past.call.step in names and past.attempts)
    return [past for past in named if not past.finished and not past.aside]


def _place_of(ledger: Ledger, scope: str, step: str) -> int:
    """Where the flow last came to a step in a scope (in a repeat, in the same iteration); 0 when it has not since."""
    alike = (past for past in ledger.calls.values() if (past.call.scope, past.call.step) == (scope, step))
    places = [place for past in alike if (place := place_of(ledger, past.call)) < NOT_REACHED]
    return max([place for place in places if place < BEHIND] or places, default=0)


def _rewind(execution: Execution, name: str, target: str, place: int) -> None:
    facts = {"to": place, "by": "the flow", "why": f"{name} says resume_to {target}", "from": name}
    execution.go_back(execution.writer.fact("run", "rewound", facts))
