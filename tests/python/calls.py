"""Calls that are right and calls that are wrong: a line that ends with `# wrong` is one that a checker must report.

Nothing of it is run. `test_types.py` has mypy read it in strict mode; pyright says the same.
"""

# ruff: noqa: B018

from typing import Any, Literal, assert_type

from outlast import (
    AsyncOutlast,
    AsyncRun,
    Failed,
    Ok,
    Outcome,
    Outlast,
    Receipt,
    Run,
    RunError,
    RunRecord,
    Settings,
    effect,
    flow,
    flow_file,
    step,
)


@step
def find(words: str, limit: int = 3) -> list[str]:
    return [words] * limit


@step(retries=2, timeout="5m", record_inputs=True)
async def find_soon(words: str) -> list[str]:
    return [words]


@effect
def send(text: str) -> bytes:
    return text.encode()


def bare(number: int) -> str:
    return str(number)


@flow
def report(run: Run, topic: str, pages: int = 1) -> str:
    return topic * pages


@flow(name="slow", deadline="1h")
async def slow_report(run: AsyncRun, topic: str) -> int:
    return len(topic)


def of_outlast(outlast: Outlast) -> None:
    assert_type(outlast.run(report, "kelp"), Outcome[str])
    assert_type(outlast.run(report, "kelp", pages=2), Outcome[str])
    assert_type(outlast.run(report, "kelp", task="weekly", fresh=True), Outcome[str])
    assert_type(outlast.run(slow_report, topic="kelp", meta={"why": 1}).unwrap(), int)
    assert_type(outlast.start(report, "kelp").outcome(), Outcome[str])
    outlast.run(flow_file("flow.yaml"), place="Oslo")
    outlast.with_options(tags=["nightly"], again=True, wait=2.5).run(report, "kelp")
    outlast.runs(status="failed", flow="report", since="7d", limit=5, cursor="abc")

    outlast.run(report)  # wrong
    outlast.run(report, 3)  # wrong
    outlast.run(report, "kelp", page=2)  # wrong
    outlast.run(report, "kelp", pages="2")  # wrong
    outlast.run(report, "kelp", 1, 2)  # wrong
    outlast.run(bare, 3)  # wrong
    outlast.run(report, "kelp", fresh="yes")  # wrong
    outlast.start(report, 3)  # wrong
    outlast.start(slow_report)  # wrong
    outlast.with_options(agian=True)  # wrong
    outlast.with_options(tags="nightly", wait="long")  # wrong
    outlast.runs(status="suceeded")  # wrong
    outlast.runs(sttaus="failed")  # wrong


async def of_async_outlast(outlast: AsyncOutlast) -> None:
    assert_type(await outlast.run(report, "kelp"), Outcome[str])
    assert_type(await (await outlast.start(slow_report, "kelp")), Outcome[int])
    assert_type(await outlast.get("run"), RunRecord)
    assert_type(await outlast.receipts("run"), list[Receipt])
    async for _, piece in outlast.follow_logs("run"):
        assert_type(piece, bytes)

    await outlast.run(report, 3)  # wrong
    await outlast.start(report, page="kelp")  # wrong
    outlast.get("run").status  # wrong
    await outlast.get(run="run")  # wrong
    for _ in outlast.runs():  # wrong
        pass


def of_run(run: Run) -> None:
    assert_type(run.step(find, "kelp", limit=2), list[str])
    assert_type(run.step(find_soon, "kelp"), list[str])
    assert_type(run.step(bare, 1, id="one"), str)
    assert_type(run.effect(send, "kelp"), bytes)
    assert_type(run.effect(bare, 1, confirm=bare), str)
    assert_type(run.map(find, ["a"], key=str, concurrency=2), list[list[str]])
    assert_type(run.map(bare, [1], on_error="collect"), list[Ok[str] | Failed])
    assert_type(run.spawn(report, "kelp", pages=2).result(), str)
    assert_type(run.pause_for("decision", schema=Choice), Choice)
    assert_type(run.pause_for("input", {"of": 1}, schema=int, deadline="2d", assignee="ada"), int)
    assert_type(run.tags, tuple[str, ...])

    find(3)  # wrong
    find("kelp", limt=2)  # wrong
    run.step(find, 3)  # wrong
    run.step(find, "kelp", limt=2)  # wrong
    run.step(find)  # wrong
    run.step(find_soon, 3)  # wrong
    run.effect(send)  # wrong
    run.effect(send, text=3)  # wrong
    run.spawn(report)  # wrong
    run.spawn(report, 3)  # wrong
    run.spawn(bare, 3)  # wrong
    run.map(bare, ["a"])  # wrong
    run.map(bare, [1], on_error="colect")  # wrong
    run.map(bare, [1], concurrency="2")  # wrong
    text: str = run.pause_for("input", schema=int)  # wrong
    run.task = "another"  # wrong
    run.pause_for("input", deadlin="2d")  # wrong
    del text


async def of_async_run(run: AsyncRun) -> None:
    assert_type(await find_soon("kelp"), list[str])
    assert_type(await run.step(find, "kelp"), list[str])
    assert_type(await run.effect(send, "kelp", id="one"), bytes)
    assert_type(await run.map(find_soon, ["a"]), list[list[str]])
    assert_type(await run.pause_for("decision", schema=Choice), Choice)
    assert_type(await run.spawn(slow_report, "kelp"), int)

    await run.step(find, 3)  # wrong
    await run.effect(send, txt="kelp")  # wrong
    await run.spawn(slow_report, 3)  # wrong
    await run.map(find_soon, [1])  # wrong


class Choice:
    """What a person chose."""

    def __init__(self, word: str) -> None:
        self.word = word


def of_outcome(outcome: Outcome[str], record: RunRecord, receipt: Receipt) -> None:
    if outcome.status == "failed":
        assert_type(outcome.error, RunError | None)
    if outcome.error is not None:
        assert_type(outcome.error.type, str)
        assert_type(outcome.error.message, str)
        assert_type(outcome.error.code, str)
        assert_type(outcome.error.step, str)
        assert_type(outcome.error.trace, str)
    assert_type(receipt.inputs, dict[str, Any])
    word: Literal["left"] = outcome.status  # wrong
    if outcome.status == "suceeded":  # wrong
        pass
    if record.status == "cancelled":  # wrong
        pass
    outcome.error.message  # wrong
    Settings(lease_secnds=3)  # wrong
    del word


@step(timout=5)  # wrong
def slow(words: str) -> str:
    return words


@effect(writes=["a"])  # wrong
def paid(words: str) -> str:
    return words


@flow(retires=3)  # wrong
def tried(run: Run) -> None:
    pass
