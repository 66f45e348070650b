"""Runs as the ledger keeps them, written without running anything: families of any shape, status and age."""

from collections.abc import Sequence
from typing import Any

from outlast import Outlast
from outlast.ledger.journal import Header, Payload, entry, genesis
from outlast.runs.claim import run_fact
from outlast.runs.journal import ENDS
from outlast.store.contract import Ending, Hold, NewRun
from outlast.values.codec import digest, identity

HOUR = 3_600_000_000


def add_run(
    outlast: Outlast,
    run_id: str,
    *,
    parent: str = "",
    status: str = "succeeded",
    seal: str = "",
    flow: str = "m:flow",
    scope: str = "default",
    contents: Sequence[bytes] = (),
    entries: int = 0,
    ended_ago: int = 0,
    holder: str | None = None,
) -> Hold:
    """A run that ended (or stopped) so many hours ago, whose entries refer to blobs of these contents."""
    home = outlast._executor.home
    names = [home.blobs.put(content) for content in contents]
    at = home.clock.now() - ended_ago * HOUR
    inputs = identity(b"{}")
    new = NewRun(run_id, scope, flow, run_id, "{}", inputs, parent, "", "", "{}", "local", at)
    steps = [Header("step", f"s{n}", attempt=1, status="succeeded", delivered=True) for n in range(entries)]
    written = [run_fact("started", {}, epoch=1, at=at)]
    written += [entry(header) for header in steps]
    written += [entry(Header("step", "s", inputs=name, status="succeeded"), Payload(blob=name)) for name in names]
    if status in ENDS:
        written.append(run_fact(status, {"result": digest(b'{"value":null}')}, epoch=1, at=at))

    def work(tx: Any) -> Hold:
        held = tx.add_run(new, genesis(run_id, flow, run_id, inputs), holder or home.process.id)
        tx.append(held, written)
        tx.end_run(held.run_key, Ending(status, "", '{"value":null}' if status == "succeeded" else None, None, at))
        tx.do(f"UPDATE runs SET seal = '{seal}', updated_at = {at} WHERE key = {held.run_key}")
        if holder is None:
            tx.release_lease(held)
        return held

    return outlast._executor.home.store.write(work)


def age_blobs(outlast: Outlast) -> None:
    """As if every blob had been written long ago, also those in the trash."""
    import os

    for path in outlast._executor.home.blobs.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))


def ids(outlast: Outlast) -> set[str]:
    return {run.id for run in outlast.runs(limit=10_000)}
