"""A long run is read in a stream: what a look at it takes in memory does not grow with what its steps returned."""

import os
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow, step
from outlast.doors.cli.group import cli
from outlast.home.settings import Settings
from outlast.ledger.journal import Row
from outlast.runs import journal
from outlast.store.contract import FinishedRow, LeaseRow, Reading, RunRow
from outlast.store.contract.runs import ENTRIES
from outlast.store.nouns.runs import AHEAD
from outlast.store.sqlite.transaction import StoreReader

FEW, OFTEN, SIZE = 300, 4, 30_000  # steps, times as many, bytes of each result
MOST_BYTES = (ENTRIES + AHEAD) * SIZE + (4 << 20)  # what may come on top: a page, and less than a kilobyte for a step


@step
def write(n: int) -> str:
    return f"{n:09d}" + "x" * (SIZE - 9)


@flow(name="long")
def long(run: Run, steps: int) -> int:
    for n in range(steps):
        write(n)
    raise RuntimeError("not yet")


def made(home: Path, steps: int) -> str:
    """A run of so many steps that did not come to its end."""
    with Outlast(home) as outlast:
        outcome = outlast.run(long, steps)
        assert outcome.status == "failed"
        return outcome.run_id


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Path, str]]]:
    folder = tmp_path_factory.mktemp("long")
    yield [(folder / f"{steps}", made(folder / f"{steps}", steps)) for steps in (FEW, FEW * OFTEN)]
    shutil.rmtree(folder)


def command(*words: str) -> Callable[[Path, str], None]:
    def look(home: Path, run_id: str) -> None:
        told = [word.replace("RUN", run_id).replace("FILE", str(home / "out.outlast")) for word in words]
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            cli.main([*told, "--home", str(home)], standalone_mode=False)

    return look


def resume(home: Path, run_id: str) -> None:
    """To where it failed before, once more: every result is given again, one after the other. No mirror is kept."""
    with Outlast(home, settings=Settings(mirror_seconds=0)) as outlast:
        outcome = outlast.resume(run_id)
        assert outcome.status == "failed"
        assert outcome.replayed_steps == outlast.get(run_id, state=False).inputs["steps"]


def resume_mirrored(home: Path, run_id: str) -> None:
    """The same with a mirror, whose first look falls among the replayed steps."""
    with Outlast(home, settings=Settings(mirror_seconds=0.001)) as outlast:
        assert outlast.resume(run_id).status == "failed"


LOOKS = {
    "show": command("show", "RUN"),
    "show --json": command("show", "RUN", "--json"),
    "receipts": command("receipts", "RUN"),
    "receipts --json": command("receipts", "RUN", "--json"),
    "events": command("events", "RUN"),
    "verify": command("verify", "RUN"),
    "audit": command("audit", "RUN"),
    "export": command("export", "RUN", "FILE", "--force"),
    "the mirror": command("export", "RUN", "--mirror"),
    "resume": resume,
    "resume with a mirror": resume_mirrored,
    "resume by command": command("resume", "RUN"),
}


def peak(work: Callable[[], None]) -> int:
    tracemalloc.start(1)
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_at_a_long_run_takes_no_more_memory_for_longer_results(name: str, homes: list[tuple[Path, str]]) -> None:
    look = LOOKS[name]
    for home, run_id in homes[:1]:
        look(home, run_id)  # what is loaded once is not counted
    few, many = (peak(lambda home=home, run_id=run_id: look(home, run_id)) for home, run_id in homes)
    assert many - few < MOST_BYTES, (few, many)


def test_show_reads_the_journal_of_a_failed_run_twice(
    homes: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run_id = homes[0]
    read, journal_of = list[int](), StoreReader.journal_of

    def counted(self: StoreReader, *asked: int) -> list[Row]:
        rows = journal_of(self, *asked)
        read.extend(row.seq for row in rows)
        return rows

    monkeypatch.setattr(StoreReader, "journal_of", counted)
    LOOKS["show"](home, run_id)
    again = [seq for seq, times in Counter(read).items() if times > 2]  # once for the chain, once for runs it began
    assert len(set(read)) >= FEW
    assert len(again) <= AHEAD  # the results of the newest ones, which are shown, were left in the store


def test_resume_reads_the_journal_for_the_run_and_for_its_mirror_alone(
    homes: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run_id = homes[0]
    read, each = list[str](), journal._read

    def counted(look: Reading, run: RunRow | FinishedRow, lease: LeaseRow | None) -> journal.Journal:
        read.append(run.id)
        return each(look, run, lease)

    monkeypatch.setattr(journal, "_read", counted)
    LOOKS["resume by command"](home, run_id)
    assert read == [run_id] * 2


def test_the_outcome_of_a_long_run_keeps_nothing_of_its_journal(many: list[tuple[Path, str]]) -> None:
    home, run_id = many[1]
    with Outlast(home, settings=Settings(mirror_seconds=0)) as outlast:
        outlast.resume(run_id)  # what is loaded once is not counted
        tracemalloc.start(1)
        try:
            outcome = outlast.resume(run_id)
            assert outcome.error is not None
            assert tracemalloc.get_traced_memory()[0] < 100 * STEPS[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("name", ["show", "receipts", "audit", "resume", "resume with a mirror"])
def test_a_look_at_a_run_of_many_steps_keeps_each_of_them_once(name: str, many: list[tuple[Path, str]]) -> None:
    look = LOOKS[name]
    look(*many[0])  # what is loaded once is not counted
    few, often = (peak(lambda home=home, run_id=run_id: look(home, run_id)) for home, run_id in many)
    assert (often - few) / (STEPS[1] - STEPS[0]) < STEP_BYTES.get(name, 1_700), (few, often)


STEPS = 100, 1_600
STEP_BYTES = {"resume": 900, "resume with a mirror": 1_000}  # of others: an entry with its call, its label, and more


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("many")
    return [(folder / f"{steps}", counted_to(folder / f"{steps}", steps)) for steps in STEPS]


@step
def count(n: int) -> int:
    return n


@flow(name="many")
def of_many(run: Run, steps: int) -> int:
    for n in range(steps):
        count(n)
    raise RuntimeError("not yet")


def counted_to(home: Path, steps: int) -> str:
    with Outlast(home, store_options={"synchronous": "OFF"}) as outlast:
        return outlast.run(of_many, steps).run_id
