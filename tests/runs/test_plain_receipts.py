"""Plain receipts are read and given again on a shorter way, and nobody can tell: the body is given the same."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import astuple

from outlast import AsyncRun, Outlast, Run, flow, step
from outlast.ledger.journal import Header, JournalEntry, Payload, decode_header, entry
from outlast.runs import call
from outlast.runs.call import fold
from outlast.runs.execution import Execution

from ..kit.place import KNOBS
from .stories import chain, known
from .test_flat_calls import (
    Fish,
    emits,
    fails_first,
    ignoring,
    large,
    named,
    no_words,
    nothing,
    says,
    scalar,
    slept,
    starred,
    text,
    timed,
    typed,
    unannotated,
    writes,
)


@flow
def recalled(run: Run) -> None:
    """Keeps what every call gave it, and fails."""
    given, first = KNOBS["given"], KNOBS["edited"]
    for n in range(3):
        if first and n == 1:
            given.append(scalar(2))  # before those that came before it
        given += [scalar(n), scalar(0), nothing(), no_words(), no_words(n, b=False), no_words({"in": {"a": 1}})]
        given += [no_words({"b": 1, "in": {"in": {}}}), text(f"w%{n}"), text(',"in":{'), typed(Fish("cod", n + 0.5))]
        given += [unannotated([n]), unannotated({"a": 1, "in": {"n": n}}), starred("a", "b", c=n), named(n), timed(n)]
        given += [ignoring(n, noise=first), large(40_000 if n == 1 else 3000), writes(n), run.state["number"]]
        given += [says(n), emits(n), fails_first(n), run.step(scalar, n, id=f"id {n}")]
        given += run.map(scalar, [n, n, 7], concurrency=1)
        with run.branch("inner % scope"):
            given += [scalar(n), scalar(n)]
    given.append(scalar(first + 1000))
    raise ValueError("not yet")


@flow
async def recalled_async(run: AsyncRun) -> None:
    given = KNOBS["given"]
    for n in range(3):
        given += [await slept(n), await slept(0), await run.step(scalar, n), *await run.map(slept, [n, 3])]
        later = slept(n + 5)
        given += [await slept(n + 6), await later]
    raise ValueError("not yet")


def gave(place: Path, body: Any, *, edited: int) -> "Gave":
    """What the body was given; how many of it were on record; and what its journal is about."""
    KNOBS["given"], KNOBS["edited"] = [], edited
    with Outlast(place, store_options={"synchronous": "OFF"}) as outlast:
        outcome = outlast.run(body, task="one")
        assert outcome.status == "failed"
        run = outlast._caller.home.store.read(lambda look: look.run_by_id(outcome.run_id))
        assert run is not None
        rows = outlast._caller.home.store.read(lambda look: look.journal_of(run.key))
        told = [header[:5] for row in rows if (header := astuple(decode_header(row.header)))[0] != "wait"]
        return KNOBS["given"], outcome.replayed_steps, told


Gave = tuple[list[Any], int, list[tuple[Any, ...]]]


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps whose results were given again on the short way."""
    taken: list[str] = []
    again = Execution.again

    def noting(self: Execution, spec: Any, past: Any) -> Any:
        taken.append(spec.name)
        return again(self, spec, past)

    monkeypatch.setattr(Execution, "again", noting)
    return taken


@pytest.mark.parametrize("body", [recalled, recalled_async], ids=lambda flow: flow.__name__)
def test_both_ways_give_the_same_again(
    body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_ways: list[str]
) -> None:
    first = [gave(tmp_path / way, body, edited=0) for way in ("short", "long")]
    assert short_ways == []
    short = [gave(tmp_path / "short", body, edited=edited) for edited in (0, 1)]
    assert ({"slept"} if body is recalled_async else {"scalar", "text", "typed", "writes", "large"}) <= set(short_ways)
    short_ways.clear()
    monkeypatch.setattr(Execution, "plain_receipt", lambda *_: None)
    long = [gave(tmp_path / "long", body, edited=edited) for edited in (0, 1)]
    assert short_ways == []
    assert first[0][0] == first[1][0] == short[0][0]
    assert len(first[0][0]) == short[0][1] + (3 if body is recalled else 0)  # what the state has is no call
    assert short == long


@step
def changing(number: int) -> int:
    return number


@flow
def changed(run: Run) -> None:
    KNOBS["notes"] = [changing(n) for n in range(3)]
    raise ValueError("not yet")


def test_code_that_is_not_what_it_was_is_noted_on_the_short_way_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_ways: list[str]
) -> None:
    with Outlast(tmp_path / "home", store_options={"synchronous": "OFF"}) as outlast:
        outlast.run(changed, task="one")
        found = set[str]()
        again = Execution.again

        def noting(self: Execution, spec: Any, past: Any) -> Any:
            given = again(self, spec, past)
            found.update(self.code_changed)
            return given

        monkeypatch.setattr(Execution, "again", noting)
        outlast.run(changed, task="one")
        assert (short_ways, found) == (["changing"] * 2, set())  # the first says where its code is
        changing.spec.shape.code = "0" * 32
        outlast.run(changed, task="one")
        assert (len(short_ways), found) == (4, {"changing"})


# -- reading them ----------------------------------------------------------------------------------


BEGAN, DIGESTS = 1_790_000_000_000_000, [letter * 32 for letter in "ab"]
ODD = ['a"', ',0,1,"succeeded",true,"","",', "ü" * 16, '"' + "x" * 30, "=id " * 8]  # three of them 32 bytes as JSON


def receipt(step: str, scope: str, inputs: str, number: int, attempt: int, code: str, agent: str) -> JournalEntry:
    """Of a step that succeeded."""
    moments = {"started_at": BEGAN, "ended_at": BEGAN + number}
    header = Header(
        "step", step, scope, inputs, number, attempt, "succeeded", True, agent=agent, code=code, epoch=1, **moments
    )
    return entry(header, Payload(result=Raw(b"1")))


RECEIPTS = st.builds(
    receipt,
    st.sampled_from(["fetch", ODD[0]]),
    st.sampled_from(["", "inner/"]),
    st.sampled_from([*DIGESTS, "c" * 32, "d" * 32, *ODD]),
    st.just(0) | st.just(1),
    st.just(1) | st.just(2),
    st.sampled_from(DIGESTS),
    st.just("") | st.just("agent"),
)


@given(st.lists(RECEIPTS, max_size=30))
@example([receipt("fetch", "", inputs, 0, 1, DIGESTS[0], "") for inputs in (*DIGESTS, *ODD)])
@example([receipt("fetch", "", letter * 32, 0, 1, DIGESTS[letter == "c"], "") for letter in "abc"])
def test_headers_that_are_known_by_their_like_say_what_is_decoded(entries: list[JournalEntry]) -> None:
    rows = chain(entries)
    quick = known(fold(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call._PlainHeaders, "call_in", lambda *_: None)
        assert known(fold(rows)) == quick


def test_most_headers_of_a_long_run_are_known_by_their_like(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [receipt("fetch", "", f"{number:032x}", 0, 1, DIGESTS[0], "") for number in range(50)]
    decoded: list[bytes] = []

    def noting(raw: bytes) -> Header:
        decoded.append(raw)
        return decode_header(raw)

    monkeypatch.setattr(call, "decode_header", noting)
    assert len(fold(chain(entries)).calls) == 50
    assert len(decoded) == 2  # the first says of its code that it is one; the second, how others look
