"""What a flow file is started with, and what makes the work of its steps."""

from typing import Any

import pytest

from outlast.errors import InputsInvalid, OutlastError, SecretMissing
from outlast.flows.yaml.read import bind_inputs, code_of_step, demand_secrets

from ..kit.flow_files import EXAMPLE, WORK, parse, step, with_steps

# -- what a step's work is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        WORK.replace("flow: f", "# a comment\nflow: g"),
        "flow: f\nenv:\n  B: 'y'\nsteps:\n  - id: a\n    accept:\n      - make test\n    cwd: sub/\n"
        "    run: |\n      make\n    env: {A: x}\n",
        with_steps("- {id: a, run: make, env: {A: x, B: y}, cwd: sub, accept: make test}"),
        WORK.replace("env: {B", "cwd: ./sub\nenv: {B").replace("cwd: sub, ", ""),
        WORK.replace("id: a,", "id: a, agent: me, timeout: 5, retries: 3, writes: x, reads: y, when: x,"),
    ],
)  # fmt: skip
def test_how_it_is_written_and_driven_is_no_part_of_the_work(other: str) -> None:
    assert code_of_step(parse(other), "a") == code_of_step(parse(WORK), "a")


@pytest.mark.parametrize(
    ("old", "new"),
    [("run: make", "run: make all"), ("A: x", "A: z"), ("B: y", "B: z"), ("cwd: sub", "cwd: sub2"), ("B: y", "C: y"),
     ("make test", "make check"), ("accept: make test", "effect: true"), ("cwd: sub,", "")],
)  # fmt: skip
def test_other_work_has_another_digest(old: str, new: str) -> None:
    assert code_of_step(parse(WORK.replace(old, new)), "a") != code_of_step(parse(WORK), "a")


def test_the_digest_of_an_effect_covers_how_it_is_confirmed() -> None:
    effect = with_steps("- {id: a, run: x, effect: true, confirm: c, not_done_exit: [75, 76]}")
    same, probe, exits = (effect.replace(*each) for each in (("75, 76", "76, 75"), ("m: c", "m: d"), ("75, ", "")))
    assert code_of_step(parse(same), "a") == code_of_step(parse(effect), "a")
    assert len({code_of_step(parse(each), "a") for each in (effect, probe, exits)}) == 3


def test_only_commands_have_a_digest_also_nested_ones() -> None:
    recipe = parse(EXAMPLE)
    found = {node.id: code_of_step(recipe, node.id) for node in recipe.nodes()}
    assert [name for name, code in found.items() if code is None] == ["approve", "fix", "checks"]
    assert all(len(code) == 32 for code in found.values() if code)
    assert code_of_step(recipe, "nowhere") is None


# -- inputs and secrets ------------------------------------------------------------------------------

INPUTS = parse(
    "flow: f\ninputs:\n  ticket: string\n  n: {type: integer, default: 5}\n  x: {type: number, default: 0.5}\n"
    "  go: {type: boolean, default: false}\n  data: {type: json, default: null}\nsteps: [{id: a, run: x}]\n"
)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ticket", "5", "5"), ("ticket", "", ""), ("ticket", "true", "true"), ("n", 7, 7), ("n", "7", 7),
        ("n", "-7", -7),
        ("n", "0", 0), ("x", 1, 1), ("x", "1", 1), ("x", "1.50", 1.5), ("x", "1e3", 1000.0), ("go", True, True),
        ("go", "true", True), ("go", "false", False), ("data", {"a": [1]}, {"a": [1]}), ("data", "5", "5"),
        ("data", '"', '"'),
    ],
)  # fmt: skip
def test_an_input_is_taken_by_its_type(name: str, value: Any, expected: Any) -> None:
    bound = bind_inputs(INPUTS, {"ticket": "T", name: value})
    assert bound[name] == expected
    assert type(bound[name]) is type(expected)
    assert bind_inputs(INPUTS, bound) == bound


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("ticket", 5, "5, not a text"), ("ticket", None, "null, not a text"), ("ticket", "a\0b", "NUL"),
        ("ticket", "\ud800", "half of a character"), ("ticket", "x" * 200_000, "put it in a file"),
        ("n", "5.0", "whole number"), ("n", " 5", "whole number"), ("n", "1_000", "whole number"), ("n", "٥", "whole"),
        ("n", "05", "whole number"), ("n", 5.0, "whole number"), ("n", True, "true, not a whole number"),
        ("n", "", "whole number"), ("n", "9" * 5000, "characters"), ("x", "nan", "a number"), ("x", "1e999", "finite"),
        ("x", float("inf"), "finite"), ("x", "1,5", "a number"), ("go", "yes", "true or false"),
        ("go", 1, "true or false"),
        ("go", "True", "true or false"), ("data", {1, 2}, "no JSON"), ("data", float("nan"), "no JSON"),
        ("data", [float("nan")], "no JSON"), ("data", ["\ud800"], "half"),
        ("n", [1], "whole number"), ("other", 1, "it has no input 'other'"),
    ],
)  # fmt: skip
def test_an_input_that_does_not_fit_is_refused_with_the_signature(name: str, value: Any, fragment: str) -> None:
    with pytest.raises(InputsInvalid) as caught:
        bind_inputs(INPUTS, {"ticket": "T", name: value})
    assert fragment in caught.value.why
    assert len(str(caught.value)) < 500
    assert caught.value.signature == (
        "ticket: string, n: integer = 5, x: number = 0.5, go: boolean = false, data: json = null"
    )


def test_defaults_are_filled_in_and_everything_wrong_is_named_at_once() -> None:
    assert bind_inputs(INPUTS, {"ticket": "T"}) == {"ticket": "T", "n": 5, "x": 0.5, "go": False, "data": None}
    with pytest.raises(InputsInvalid) as caught:
        bind_inputs(INPUTS, {"n": "x", "tiket": 1})
    assert caught.value.why == "it has no input 'tiket'; ticket is missing; n is \"x\", not a whole number"


@pytest.mark.parametrize(("word", "expected"), [("5", 5), ('{"a": [1]}', {"a": [1]}), ('"5"', "5"), ("null", None)])
def test_a_word_of_the_command_line_is_json_for_a_json_input(word: str, expected: Any) -> None:
    assert bind_inputs(INPUTS, {"ticket": "5", "data": word}, words=True) == {
        "ticket": "5", "n": 5, "x": 0.5, "go": False, "data": expected,
    }  # fmt: skip


@pytest.mark.parametrize("word", ["hello", "", "{a: 1}", "NaN", "[Infinity]", "[" * 100_000, "1 2"])
def test_a_word_that_is_no_json_is_refused(word: str) -> None:
    with pytest.raises(InputsInvalid, match="no JSON"):
        bind_inputs(INPUTS, {"ticket": "T", "data": word}, words=True)


def test_a_flow_without_inputs_takes_none() -> None:
    recipe = parse(step())
    assert bind_inputs(recipe, {}) == {}
    with pytest.raises(InputsInvalid, match="its inputs are none"):
        bind_inputs(recipe, {"a": 1})


def test_secrets_are_demanded_all_at_once() -> None:
    recipe = parse(with_steps("- {id: a, run: x}", "secrets: [A, B, C]\n"))
    assert demand_secrets(recipe, {"A": "1", "B": "2", "C": "3", "D": "4"}) == {"A": "1", "B": "2", "C": "3"}
    with pytest.raises(SecretMissing, match=r"unset or empty: B, C;") as caught:
        demand_secrets(recipe, {"A": "hidden-value", "B": ""})
    assert "hidden-value" not in str(caught.value)
    assert caught.value.code == "secret_missing"
    assert isinstance(caught.value, OutlastError)
    assert demand_secrets(parse(step()), {}) == {}
