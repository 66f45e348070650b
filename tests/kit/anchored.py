"""Handoffs as the ledger keeps them, written without looking at files, running checks or judging anything."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import asdict

from outlast import Outlast
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.anchor import hold_of, told
from outlast.handoffs.handoff import Evidence, Handoff, Lint, encode_handoff
from outlast.handoffs.journal import row_of
from outlast.home.claimer import print_of
from outlast.ledger.journal import Row, genesis_of_anchor
from outlast.ledger.lease import Beat, Process
from outlast.store.contract import AnchorRow, LeaseRow

ANCHOR = "task:x"


def anchor_row(outlast: Outlast, anchor: str = ANCHOR, scope: str = "default") -> AnchorRow:
    found = outlast._executor.home.store.read(lambda look: look.anchor_of(scope, anchor))
    assert found is not None
    return found


def lease_row(outlast: Outlast, anchor: str = ANCHOR) -> LeaseRow:
    row = anchor_row(outlast, anchor)
    found = outlast._executor.home.store.read(lambda look: look.lease_of_anchor(row.id))
    assert found is not None
    return found


def journal(outlast: Outlast, anchor: str = ANCHOR) -> list[Row]:
    row = anchor_row(outlast, anchor)
    return outlast._executor.home.store.read(lambda look: look.journal_of(row.key))


def evidence(outlast: Outlast, output: bytes, **given: Any) -> Evidence:
    """What came of a check that printed this."""
    fields = {"passed": True, "at": 1, "by": "ann", "where": "here", "runner": "runner", "when": "verify"} | given
    return Evidence(check="make test", output=outlast._executor.home.blobs.put(output), **fields)


def revise(
    outlast: Outlast,
    anchor: str = ANCHOR,
    *,
    scope: str = "default",
    content: bytes = b"",
    patch: bytes = b"",
    output: bytes = b"",
    **changed: Any,
) -> Handoff:
    """The next revision, bound to `src/a.py` of this content."""
    home = outlast._executor.home
    kept, patched = (home.blobs.put(each) if each else "" for each in (content, patch))
    files = {"src/a.py": Bound("file", "d" * 64, size=len(content), kept=kept)}
    given: dict[str, Any] = {
        "summary": "half of it is done",
        "handoff_text": "go on in a.py",
        "target_files": ("src/a.py",),
        "next_action": "write the rest",
        "acceptance_checks": ("make test",),
        "symbol": "rest",
        "id": home.ids(),
        "actor": "ann",
        "stored_us": home.clock.now(),
        "expires_us": home.clock.now() + 86_400_000_000,
        "lint": Lint(90),
        "binding": Binding(root="/repo", host="here", files=files, branch="main", patch=patched),
        "baseline": (evidence(outlast, output, when="store"),) if output else (),
    }

    def work(tx: Any) -> Handoff:
        row = tx.anchor_of(scope, anchor)
        if row is None:
            new = home.ids()
            row = tx.add_anchor(new, scope, anchor, genesis_of_anchor(new, scope, anchor))
        handoff = Handoff(**given | {"anchor": anchor, "scope": scope, "revision": row.revision + 1} | changed)
        lease = tx.lease_of_anchor(row.id)
        held = hold_of(row, lease)
        raw = msgspec.Raw(encode_handoff(handoff))
        tx.append(held, [told("stored", raw, at=handoff.stored_us, epoch=lease.epoch, blobs=handoff.blobs)])
        tx.add_handoff(row.key, held.head, row_of(handoff))
        return handoff

    return home.store.write(work)


def note(outlast: Outlast, name: str, facts: dict[str, Any], blobs: Iterable[str] = (), anchor: str = ANCHOR) -> None:
    """An entry about the newest revision."""

    def work(tx: Any) -> None:
        row = tx.anchor_of("default", anchor)
        lease = tx.lease_of_anchor(row.id)
        tx.append(
            hold_of(row, lease),
            [told(name, facts, at=outlast._executor.home.clock.now(), epoch=lease.epoch, blobs=blobs)],
        )

    outlast._executor.home.store.write(work)


def checked(outlast: Outlast, output: bytes, anchor: str = ANCHOR) -> str:
    """Evidence, whose output is a blob."""
    found = evidence(outlast, output)
    note(outlast, "checked", {"by": "ann", "evidence": [asdict(found)]}, [found.output], anchor)
    return found.output


def settle(outlast: Outlast, outcome: str, anchor: str = ANCHOR) -> None:
    facts = {"by": "ann", "outcome": outcome, "evidence": [], "missing": [], "override": "", "note": ""}
    note(outlast, "settled", facts, (), anchor)
    row = anchor_row(outlast, anchor)
    status = "finished" if outcome == "completed" else "open"
    outlast._executor.home.store.write(lambda tx: tx.settle_anchor(row.key, status, outcome))


def beat(outlast: Outlast, token: str, *, pid: int = 0, started: int = 0) -> Beat:
    """A claim's sign of life, now; pid 0: there is no process behind it."""
    home = outlast._executor.home
    me = home.process
    process = Process(token, me.host, me.boot_id, me.pid_namespace, pid, started)
    return Beat(process, home.clock.boot(), home.clock.now(), 900.0)


def claim(outlast: Outlast, token: str, anchor: str = ANCHOR, **process: int) -> None:
    """Somebody claims it."""
    row, lease = anchor_row(outlast, anchor), lease_row(outlast, anchor)

    def work(tx: Any) -> None:
        tx.beat_claim(beat(outlast, token, **process))
        assert tx.take_lease(lease, token)
        facts = {"by": "bob", "claim": print_of(token)}
        entries = [told("claimed", facts, at=outlast._executor.home.clock.now(), epoch=lease.epoch + 1)]
        tx.append(hold_of(row, lease, lease.epoch + 1), entries)

    outlast._executor.home.store.write(work)


def story(outlast: Outlast, anchor: str = ANCHOR) -> list[Handoff]:
    """A history of everything: revisions with content, patch and output, evidence, an end and a new beginning."""
    first = revise(outlast, anchor, content=b"a = 1\n", output=b"1 failed\n")
    checked(outlast, b"all passed\n", anchor)
    settle(outlast, "completed", anchor)
    return [first, revise(outlast, anchor, content=b"a = 2\n", patch=b"+a = 2\n", reopened=True)]
