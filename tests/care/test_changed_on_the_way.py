"""What travels beside the chain of a run is proven by it: nobody changes an answer on the way."""

import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import ArchiveInvalid

from ..kit.place import Place
from ..kit.travellers import doubtful, sleeper, stopped

Change = Callable[[dict[str, Any], list[Any], list[Any]], object]


def forged(path: str, change: Change, operations: bytes | None = None) -> Path:
    """The file with its run's row, waits and requests changed, and every digest in its manifest made anew."""
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(content.pop("manifest.json"))
    (waits,) = (name for name in content if name.endswith("/interrupts.jsonl"))
    (requests,) = (name for name in content if name.endswith("/requests.jsonl"))
    lines = {name: [json.loads(line) for line in content[name].splitlines()] for name in (waits, requests)}
    change(manifest["runs"][0]["row"], lines[waits], lines[requests])
    for name, rows in lines.items():
        content[name] = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
    if operations is not None:
        (part,) = (name for name in content if name.endswith("/operations.jsonl"))
        content[part] = operations
    manifest["members"] = [
        {"name": name, "size": len(kept), "sha256": sha256(kept).hexdigest()} for name, kept in content.items()
    ]
    made = Path(path).with_name("forged.zip")
    with zipfile.ZipFile(made, "w") as file:
        for name, kept in (content | {"manifest.json": json.dumps(manifest).encode()}).items():
            file.writestr(name, kept)
    return made


ANSWER, BY, PAYLOAD, DUE = 6, 7, 4, 9  # places in a wait
CHANGES: dict[str, Change] = {
    "the answer": lambda row, waits, requests: waits[0].__setitem__(ANSWER, '{"choice":"skip","result":4}'),
    "who answered": lambda row, waits, requests: waits[0].__setitem__(BY, "boss"),
    "what was asked": lambda row, waits, requests: waits[0].__setitem__(PAYLOAD, '{"inputs":"other"}'),
    "the deadline": lambda row, waits, requests: waits[0].__setitem__(DUE, 5),
    "a wait that is gone": lambda row, waits, requests: waits.clear(),
    "a request more": lambda row, waits, requests: requests.append(["pause", "{}", "boss", 1]),
    "the mark": lambda row, waits, requests: row.update(mark=2),
    "the scope": lambda row, waits, requests: row.update(scope="elsewhere"),
    "who started it": lambda row, waits, requests: row.update(actor="boss"),
    "when it began": lambda row, waits, requests: row.update(created_at=5),
    "how it stands": lambda row, waits, requests: row.update(status="failed"),
    "its phase": lambda row, waits, requests: row.update(phase="late"),
    "its name": lambda row, waits, requests: row.update(named=1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_moved_run_of_which_something_was_changed_is_refused(place: Place, other: Place, what: str) -> None:
    outcome = place.run(doubtful)
    place.outlast.answer(outcome.interrupts[0].id, {"choice": "skip", "result": 3, "why": "it happened"})
    moved = place.outlast.export(outcome.run_id, place.folder / "run.zip", move=True)
    with pytest.raises(ArchiveInvalid):
        other.outlast.import_(forged(moved.path, CHANGES[what]))
    assert other.outlast.runs() == []
    assert other.outlast.import_(forged(moved.path, lambda row, waits, requests: None)).run_id == outcome.run_id
    assert other.outlast.resume(outcome.run_id).result == 3


@pytest.mark.parametrize("operations", [b'["order 7","print",1]\n', b'["",1,1]\n', b'["a\\nb","print",1]\n'])
def test_an_operation_id_that_it_was_not_started_by_is_refused(place: Place, other: Place, operations: bytes) -> None:
    moved = place.outlast.export(stopped(place), place.folder / "run.zip", move=True)
    with pytest.raises(ArchiveInvalid):
        other.outlast.import_(forged(moved.path, lambda row, waits, requests: None, operations))
    assert other.outlast.runs() == []


def test_a_copy_whose_wait_was_changed_is_refused(place: Place, other: Place) -> None:
    outcome = place.run(sleeper)
    copy = place.outlast.export(outcome.run_id, place.folder / "run.zip")
    with pytest.raises(ArchiveInvalid, match="what it asks was changed"):
        other.outlast.import_(forged(copy.path, lambda row, waits, requests: waits[0].__setitem__(DUE, 5)))


def test_the_error_of_a_run_that_came_is_the_one_that_its_journal_has(place: Place, other: Place) -> None:
    copy = place.outlast.export(stopped(place), place.folder / "run.zip")
    with pytest.raises(ArchiveInvalid, match="error"):
        other.outlast.import_(forged(copy.path, lambda row, waits, requests: row.update(error='{"type":"x"}')))
