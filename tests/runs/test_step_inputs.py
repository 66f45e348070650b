"""Receipts keep what a call was given: the result of an earlier call by its name, other inputs masked, up to a size."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, effect, flow, step
from outlast.errors import StepInvalid

LONG = "kelp and more kelp, " * 500


@step
def find(words: str, limit: int = 3) -> str:
    return f"{words} " * 40


@step
def ask(prompt: str, found: str) -> str:
    return "an answer"


@step
def keep(text: str) -> int:
    return len(text)


@step(record_inputs=True)
def keep_all(text: str) -> int:
    return len(text)


@step(record_inputs=False)
def keep_none(text: str) -> int:
    return len(text)


@step
def change(items: list[int]) -> list[int]:
    items.append(4)
    raise ValueError("it was changed")


@effect
def pay(token: str, password: str) -> str:
    return "paid"


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home") as found:
        yield found


@flow
def asking(run: Run) -> str:
    found = find("kelp")
    return ask("what is it?", found)


@flow
def keeping(run: Run, text: str) -> int:
    return keep(text) + keep_all(text) + keep_none(text)


@flow
def changing(run: Run) -> None:
    change([1, 2, 3])


@flow
def paying(run: Run) -> str:
    return pay("sk-live-" + "a1B2c3D4" * 5, "hunter2")


def inputs_of(outlast: Outlast, run_id: str) -> dict[str, Any]:
    return {receipt.step: receipt.inputs for receipt in outlast.receipts(run_id)}


def test_what_a_call_was_given_is_in_its_receipt(outlast: Outlast) -> None:
    run_id = outlast.run(asking).run_id
    first, second = outlast.receipts(run_id)
    assert first.inputs == {"words": {"value": "kelp"}, "limit": {"value": 3}}
    assert second.inputs == {
        "prompt": {"value": "what is it?"},
        "found": {"result_of": "find", "call": first.call},
    }
    assert outlast.verify().ok


BROKEN = [True]


@flow
def later(run: Run) -> str:
    found = find("kelp")
    if BROKEN[0]:
        raise RuntimeError("stopped here")
    return ask("again?", found)


def test_a_result_of_an_earlier_process_is_known_again(outlast: Outlast, tmp_path: Path) -> None:
    failed = outlast.run(later)
    assert failed.status == "failed"
    BROKEN[0] = False
    with Outlast(tmp_path / "home") as other:
        other.resume(failed.run_id).unwrap()
        assert inputs_of(other, failed.run_id)["ask"]["found"]["result_of"] == "find"


@step
def dredge(size: int) -> str:
    return "kelp " * size


@flow
def hauling(run: Run, sizes: list[int]) -> int:
    hauls = [dredge(size) for size in sizes]
    if BROKEN[0]:
        raise RuntimeError("stopped here")
    return sum(keep(haul) for haul in hauls)


@pytest.mark.parametrize("sizes", [[20_000], [20], [20, 20_000], list(range(20, 120))])
@pytest.mark.parametrize("broken", [False, True])
def test_a_result_is_known_wherever_it_is_kept(
    outlast: Outlast, tmp_path: Path, sizes: list[int], broken: bool
) -> None:
    BROKEN[0] = broken
    run_id = outlast.run(hauling, sizes).run_id
    if broken:
        BROKEN[0] = False
        outlast.close()
    with Outlast(tmp_path / "home") as other:
        other.resume(run_id) if broken else None
        receipts = other.receipts(run_id)
        hauls = [receipt.call for receipt in receipts if receipt.step == "dredge"]
        assert [receipt.inputs["text"]["call"] for receipt in receipts if receipt.step == "keep"] == hauls


def test_what_is_long_is_kept_by_its_digest_unless_the_step_says_otherwise(outlast: Outlast) -> None:
    found = inputs_of(outlast, outlast.run(keeping, LONG).run_id)
    assert found["keep"]["text"].keys() == {"digest", "bytes"}
    assert found["keep_all"] == {"text": {"value": LONG}}
    assert found["keep_none"] == {}
    assert outlast.verify().ok


def test_secrets_are_masked_by_what_they_are_and_by_their_names(outlast: Outlast) -> None:
    found = inputs_of(outlast, outlast.run(paying).run_id)["pay"]
    assert "a1B2c3D4" not in str(found)
    assert "hunter2" not in str(found)


def test_it_is_what_was_given_whatever_the_body_did_to_it(outlast: Outlast) -> None:
    outcome = outlast.run(changing)
    assert outcome.status == "failed"
    assert inputs_of(outlast, outcome.run_id)["change"] == {"items": {"value": [1, 2, 3]}}


def test_record_inputs_is_true_or_false() -> None:
    with pytest.raises(StepInvalid, match="record_inputs"):
        step(record_inputs="yes")(find.plain)  # type: ignore[call-overload]


KILOBYTE = "x" * 1_022


@step
def produce(number: int) -> str:
    return f"{number:06}{KILOBYTE[6:]}"


@step
def pass_on(number: int, text: str) -> str:
    return f"{number:06}{KILOBYTE[6:]}"


@flow
def tiny(run: Run, steps: int) -> None:
    for number in range(steps):
        produce(number)


@flow
def chained(run: Run, steps: int) -> None:
    text = produce(0)
    for number in range(steps):
        text = pass_on(number, text)


def size_of(home: Path) -> int:
    """Of the store: the mirror beside it is for people, and can be made again."""
    return sum(file.stat().st_size for file in home.rglob("outlast.db*"))


@pytest.mark.parametrize(("body", "most"), [(tiny, 1_400), (chained, 1_550)], ids=["tiny", "passed on"])
def test_what_a_step_of_a_kilobyte_takes_with_its_inputs(tmp_path: Path, body: Any, most: int) -> None:
    steps, sizes = 600, list[int]()
    for count in (steps, 2 * steps):
        home = tmp_path / f"home{count}"
        with Outlast(home, store_options={"synchronous": "OFF"}) as outlast:
            assert outlast.run(body, count).status == "succeeded"
        sizes.append(size_of(home))
    assert (sizes[1] - sizes[0]) / steps <= most
