"""Entries that no store wrote, though their chain is whole: named when they come in, and never fallen over later."""

from typing import Any

import pytest

from outlast.errors import ArchiveInvalid, IntegrityBroken
from outlast.handoffs.anchor import hold_of, told
from outlast.handoffs.journal import KINDS

from ..care.test_bundles import chained, export, forged, import_, members, nothing_in
from ..kit.anchored import ANCHOR, anchor_row, lease_row, note, revise
from ..kit.desk import codes
from ..kit.place import Place

EVIDENCE = {
    **{"check": "make test", "passed": True, "at": 1, "by": "ann", "where": "here"},
    **{"runner": "runner", "when": "verify"},
}
FILES = {"src/a.py": {"mode": "file", "digest": "d" * 64}}
REASON = {name: name for name in ("code", "subject", "expected", "found", "advice", "weight")}
WHOLE: dict[str, dict[str, Any]] = {
    "claimed": {"by": "ann", "claim": "c"},
    "attached": {"by": "ann", "claim": "c", "verdict": "trusted", "reasons": ["weak"]},
    "lost": {"by": "ann", "reasons": [REASON]},
    "accepted": {"by": "ann", "why": "so", "reasons": [REASON | {"fingerprint": "f"}]},
    "checked": {"by": "ann", "evidence": [EVIDENCE]},
    "settled": {"by": "ann", "outcome": "failed", "evidence": [], "missing": [], "override": "", "note": ""},
    "released": {"by": "ann", "claim": "c"},
}
WRONG: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {key: value for key, value in facts.items() if key != gone})
        for name, facts in WHOLE.items()
        for gone in facts
    ),
    *((name, facts | {"by": 5}) for name, facts in WHOLE.items()),
    ("claimed", WHOLE["claimed"] | {"files": {"src/a.py": {"mode": "nonsense"}}}),
    ("claimed", WHOLE["claimed"] | {"files": ["src/a.py"]}),
    ("settled", WHOLE["settled"] | {"files": {"src/a.py": {"mode": "nonsense"}}}),
    ("settled", WHOLE["settled"] | {"outcome": "won"}),
    ("settled", WHOLE["settled"] | {"evidence": [{"check": "make test"}]}),
    ("checked", WHOLE["checked"] | {"evidence": [EVIDENCE | {"at": 2**62}]}),
    ("checked", WHOLE["checked"] | {"evidence": [EVIDENCE | {"runner": "nobody"}]}),
    ("accepted", WHOLE["accepted"] | {"reasons": [REASON]}),
    ("accepted", WHOLE["accepted"] | {"reasons": None}),
    ("noted", {"by": "ann", "claim": "c"}),
    ("stored", {"by": "ann"}),
]


def named(given: tuple[str, dict[str, Any]]) -> str:
    return f"{given[0]} {given[1]}"[:80]


def test_every_kind_of_entry_is_tried_here() -> None:
    assert {*WHOLE} == {*KINDS}


def test_whole_ones_are_read_and_travel(place: Place, other: Place) -> None:
    revise(place.outlast)
    for name, facts in WHOLE.items():
        note(place.outlast, name, facts | ({"files": FILES} if name in ("claimed", "settled") else {}))
    assert [event.kind for event in place.outlast.handoff.history(ANCHOR)] == ["stored", *WHOLE]
    assert import_(other, export(place).path).added == 1 + len(WHOLE)
    assert "integrity_broken" not in codes(other.outlast.handoff.recover(ANCHOR))


@pytest.mark.parametrize("wrong", WRONG, ids=named)
def test_one_that_is_none_contests_and_is_named(place: Place, wrong: tuple[str, dict[str, Any]]) -> None:
    revise(place.outlast)
    note(place.outlast, *wrong)
    got = place.outlast.handoff.recover(ANCHOR, claim=True)
    (reason,) = got.verdict.reasons
    assert (reason.code, reason.subject, got.resume) == ("integrity_broken", "entry handoff task:x/2", "lost")
    for ask in (place.outlast.handoff.history, place.outlast.handoff.get):
        with pytest.raises(IntegrityBroken, match="entry handoff task:x/2"):
            ask(anchor=ANCHOR)
    assert [problem.record for problem in place.outlast.verify().problems] == ["entry handoff task:x/2"]
    assert place.outlast.handoff.list()


@pytest.mark.parametrize("wrong", [each for each in WRONG if each[0] in WHOLE], ids=named)
def test_one_that_is_none_does_not_come_in(place: Place, other: Place, wrong: tuple[str, dict[str, Any]]) -> None:
    name, facts = wrong
    revise(place.outlast)
    note(place.outlast, name, WHOLE[name])
    content = members(export(place).path)

    def change(there: dict[str, Any]) -> None:
        there.clear()
        there.update(facts)

    made = chained(content, 2, change)
    path = forged(other.folder / "f.zip", content | {"journal.jsonl": made["journal"]}, hash=made["hash"])
    with pytest.raises(ArchiveInvalid, match="entry handoff task:x/2"):
        import_(other, path)
    assert nothing_in(other)


def test_a_moment_that_cannot_be_shown_is_none(place: Place) -> None:
    revise(place.outlast)
    row, lease = anchor_row(place.outlast), lease_row(place.outlast)
    entry = told("released", WHOLE["released"], at=2**62, epoch=lease.epoch)
    place.outlast._executor.home.store.write(lambda tx: tx.append(hold_of(row, lease), [entry]))
    assert codes(place.outlast.handoff.recover(ANCHOR)) == {"integrity_broken"}
    with pytest.raises(IntegrityBroken, match="entry handoff task:x/2"):
        place.outlast.handoff.history(ANCHOR)
