"""Flow files: the good ones are read whole, the bad ones are refused with every mistake, its line and advice."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.errors import FlowNotFound, RecipeInvalid
from outlast.flows.yaml.flow import find_flow_file
from outlast.flows.yaml.keys import FLOW, INPUT, NODE, ROUNDS
from outlast.flows.yaml.model import REQUIRED, Command, Input, Parallel, Pause, Repeat
from outlast.flows.yaml.read import parse_flow_file, read_flow_file

from ..kit.flow_files import EXAMPLE, parse, problems, step, with_steps

# -- good files --------------------------------------------------------------------------------------


def test_the_example_of_the_format_is_read_as_it_stands() -> None:
    recipe = parse(EXAMPLE)
    plan, approve, fix, checks, release = recipe.steps
    assert (recipe.name, recipe.env, recipe.secrets, recipe.cwd) == ("build", {"MODEL": "large"}, ("API_TOKEN",), "")
    assert recipe.inputs == {"ticket": Input("ticket", "string", REQUIRED)}
    command = './agent "write plan.md for $OUTLAST_INPUT_TICKET"'
    assert plan == Command("plan", 6, command, agent="planner", writes=("plan.md",), timeout=600.0, retries=2)
    assert approve == Pause("approve", 12, "approval", payload={"file": "plan.md"})
    author = Command("author", 21, './agent "fix"', writes=("src/**",))
    critic = Command("critic", 22, './agent "review > review.md"', writes=("review.md",))
    assert fix == Repeat("fix", 15, (author, critic), max=5, until="pytest -q", on_limit="pause")
    lint, types = Command("lint", 25, "ruff check"), Command("types", 26, "mypy src", when="test -f mypy.ini")
    assert checks == Parallel("checks", 23, (lint, types))
    assert isinstance(release, Command)
    assert (release.effect, release.confirm, release.not_done_exit) == (
        True, './was-released.sh "$OUTLAST_EFFECT_KEY"', (75,),
    )  # fmt: skip


def test_the_rest_of_the_keys_is_read() -> None:
    recipe = parse(
        "flow: f\ncwd: app\n"
        "inputs:\n  n: {type: integer, default: 5, help: How many.}\n  data: {type: json, default: [1, {a: null}]}\n"
        "steps:\n- {id: a, run: make}\n"
        "- {id: b, run: make, cwd: sub/.., env: {PORT: 8080, V: 1.10, E: ''}, reads: in.txt, writes: [x, 'y/**'],\n"
        "   accept: make test, on_partial: restore, resume_to: a, when: 'true', timeout: 1.5, agent: me}\n"
        "- {id: c, pause_for: approval, on_decline: a, when: test -f x,\n"
        "   payload: {n: 1, x: 1.5, y: true, z: [no news]}}\n"
        "- {id: d, run: send, effect: true, not_done_exit: 75}\n"
    )
    b, c, d = recipe.steps[1:]
    assert isinstance(b, Command)
    assert isinstance(c, Pause)
    assert isinstance(d, Command)
    assert b.env == {"PORT": "8080", "V": "1.10", "E": ""}
    assert (b.reads, b.writes, b.accept) == (("in.txt",), ("x", "y/**"), ("make test",))
    assert (b.cwd, b.on_partial, b.resume_to, b.when, b.timeout) == ("sub/..", "restore", "a", "true", 1.5)
    assert c.payload == {"n": 1, "x": 1.5, "y": True, "z": ["no news"]}
    assert (c.on_decline, d.not_done_exit, recipe.cwd) == ("a", (75,), "app")
    assert recipe.inputs["n"] == Input("n", "integer", 5, "How many.")
    assert recipe.inputs["data"].default == [1, {"a": None}]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + step(),
        step().replace("\n", "\r\n"),
        "%YAML 1.1\n---\n" + step() + "...\n",
        "# first\n---\n" + step(),
        step("env: &e {A: b}", "when: &w test -f x"),
        with_steps("- {id: a, run: &r make, env: &e {A: b}}\n- {id: b, run: *r, env: *e}"),
        step("env: {TEXT: !!str 5}"),
        with_steps("- {id: a, run: x}\n- id: r\n  repeat:\n    max: 1\n    until: 'true'\n    steps:\n"
                   "    - {id: b, run: x}\n    - {id: c, run: x, resume_to: b}"),
        with_steps("- id: p\n  parallel:\n  - id: r\n    repeat: {max: 2, until: x, steps: [{id: b, run: x}]}"),
        with_steps("- {id: ok, pause_for: approval, on_decline: later}\n- {id: later, run: x}"),
        step("writes: ['a/../b', './c', '**/*.py', '-x', 'ü 😀']"),
        step("accept: []", "effect: false"),
        step("env: {A: '\U0001f600', B: \"tab\\there\"}"),
        "{flow: f, steps: [{id: a, run: \"printf '\\\\0'\"}]}",
        "flow: f\nsteps:\n- id: a\n  run: |\n    cat <<X\n    \tindented by a tab\n    X\n",
    ],
)  # fmt: skip
def test_a_file_that_is_unusual_but_clear_is_read(text: str) -> None:
    assert parse(text).name == "f"


def test_a_flow_file_is_read_from_disk(tmp_path: Path) -> None:
    file = tmp_path / "my 'flow' 😀.yaml"
    file.write_text(EXAMPLE, "utf-8")
    assert read_flow_file(file) == parse(EXAMPLE)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert read_flow_file(link).name == "build"


# -- bad files: what is written, where, what is said -------------------------------------------------

LONG = "x" * 10_000


def each(what: str) -> str:
    return with_steps(f"- {{id: e, foreach: {{{what}, steps: [{{id: a, run: x}}]}}}}")


BAD: list[tuple[str, int, str, str]] = [
    # unknown, doubled, missing
    ("flow: f\nstpes: []\nsteps: [{id: a, run: x}]\n", 2, "stpes", "did you mean `steps`?"),
    (step("timout: 10m"), 5, "steps[0].timout", "did you mean `timeout`?"),
    (step("zzz: 1"), 5, "steps[0].zzz", "the keys here are: id, run, when"),
    (step(f"{LONG[:900]}: 1"), 5, "steps[0].", "(900 characters)"),
    ("flow: f\ninputs:\n  a: {tpye: string}\nsteps: [{id: a, run: x}]\n", 3, "inputs.a.tpye", "`type`"),
    (with_steps("- id: r\n  repeat:\n    max: 1\n    untill: x\n    until: x\n    steps: [{id: a, run: x}]"),
     6, "steps[0].repeat.untill", "`until`"),
    (step("run: make"), 5, "steps[0].run", "given twice, first in line 4"),
    ("flow: f\nflow: g\nsteps: [{id: a, run: x}]\n", 2, "flow", "twice"),
    (step("env: {A: 1, A: 2}"), 5, "steps[0].env.A", "twice"),
    (with_steps("- {id: a, pause_for: approval, payload: {x: {b: 1, b: 2}}}"), 3, "steps[0].payload.x.b", "twice"),
    ("steps: [{id: a, run: x}]\n", 1, "", "`flow` is missing"),
    ("flow: f\n", 1, "", "`steps` is missing"),
    (with_steps("- run: x"), 3, "steps[0]", "`id` is missing"),
    # ids
    (with_steps("- {id: a, run: x}\n- {id: a, run: y}"), 4, "steps[1].id", "taken in line 3"),
    (with_steps("- {id: a, run: x}\n- id: p\n  parallel:\n  - {id: a, run: y}"), 6, "steps[1].parallel[0].id", "taken"),
    (with_steps("- {id: a/b, run: x}"), 3, "steps[0].id", "cannot be a name"),
    (with_steps("- {id: -a, run: x}"), 3, "steps[0].id", "cannot be a name"),
    (with_steps("- {id: '../x', run: x}"), 3, "steps[0].id", "cannot be a name"),
    (with_steps("- {id: \"a\\n\", run: x}"), 3, "steps[0].id", "cannot be a name"),
    (with_steps("- {id: é, run: x}"), 3, "steps[0].id", "cannot be a name"),
    (with_steps(f"- {{id: {LONG}, run: x}}"), 3, "steps[0].id", "10,000 characters"),
    (with_steps("- {id: when, run: x}"), 3, "steps[0].id", "kept for the runtime"),
    (with_steps("- {id: until, run: x}"), 3, "steps[0].id", "kept for the runtime"),
    (with_steps("- {id: continue, run: x}"), 3, "steps[0].id", "kept for the runtime"),
    (with_steps("- {id: run.x, run: x}"), 3, "steps[0].id", "kept for the runtime"),
    (with_steps("- {id: 5, run: x}"), 3, "steps[0].id", 'put it in quotes: "5"'),
    (step("agent: ../../etc"), 5, "steps[0].agent", "cannot be a name"),
    ("flow: a/b\nsteps: [{id: a, run: x}]\n", 1, "flow", "cannot be a name"),
    # what a node is
    (with_steps("- id: a"), 3, "steps[0]", "this one is none"),
    (with_steps("- {id: a, run: x, pause_for: approval}"), 3, "steps[0]", "run and pause_for"),
    (with_steps("- make"), 3, "steps[0]", "'make' is a text where a mapping"),
    (with_steps("- [a]"), 3, "steps[0]", "a list where a mapping"),
    (step("effect: true", "accept: [x]"), 6, "steps[0].accept", "use `confirm`"),
    (step("effect: true", "on_partial: keep"), 6, "steps[0].on_partial", "cannot be put back"),
    (step("confirm: x"), 5, "steps[0].confirm", "add `effect: true`"),
    (step("effect: false", "confirm: x"), 6, "steps[0].confirm", "add `effect: true`"),
    (step("not_done_exit: [75]"), 5, "steps[0].not_done_exit", "add `effect: true`"),
    (with_steps("- {id: a, pause_for: approval, timeout: 5}"), 3, "steps[0].timeout", "does not belong to a pause_for"),
    (with_steps("- {id: a, pause_for: signal}"), 3, "steps[0].pause_for", "approval"),
    (step("on_partial: undo"), 5, "steps[0].on_partial", "keep, restore, ask"),
    # values
    (with_steps("- {id: a, run: ''}"), 3, "steps[0].run", "empty"),
    (with_steps("- {id: a, run: '  '}"), 3, "steps[0].run", "empty"),
    (with_steps("- id: a\n  run:"), 4, "steps[0].run", "empty where text is due"),
    (with_steps("- {id: a, run: [make]}"), 3, "steps[0].run", "a list where text is due"),
    (with_steps("- {id: a, run: true}"), 3, "steps[0].run", 'put it in quotes: "true"'),
    (with_steps("- {id: a, run: \"a\\0b\"}"), 3, "steps[0].run", "NUL"),
    (with_steps(f"- {{id: a, run: {'x' * 131_072}}}"), 3, "steps[0].run", "move it into a script"),
    (step("timeout: soon"), 5, "steps[0].timeout", "90s, 10m, 48h"),
    (step("timeout: 1:30"), 5, "steps[0].timeout", "90s, 10m, 48h"),
    (step("timeout: -5"), 5, "steps[0].timeout", "is no duration"),
    (step("timeout: 0"), 5, "steps[0].timeout", "more than 0"),
    (step("timeout: .inf"), 5, "steps[0].timeout", "90s"),
    (step("timeout: [5]"), 5, "steps[0].timeout", "a list"),
    (step("retries: -1"), 5, "steps[0].retries", "0 to 1,000"),
    (step("retries: two"), 5, "steps[0].retries", "whole number"),
    (step("retries: 010"), 5, "steps[0].retries", "plain digits"),
    (step("retries: 1.5"), 5, "steps[0].retries", "whole number"),
    (step("effect: yes"), 5, "steps[0].effect", "write true or false"),
    (step("effect: 'true'"), 5, "steps[0].effect", "write true or false"),
    (step("effect: true", "not_done_exit: [0]"), 6, "steps[0].not_done_exit[0]", "1 to 255"),
    (with_steps("- {id: a, pause_for: approval, payload: [1]}"), 3, "steps[0].payload", "a mapping"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: 0x10}}"), 3, "steps[0].payload.n", "more than one way"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: 1e3}}"), 3, "steps[0].payload.n", "more than one way"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: [on]}}"), 3, "steps[0].payload.n[0]", "more than one way"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: .nan}}"), 3, "steps[0].payload.n", "more than one way"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: 2024-01-01}}"), 3, "steps[0].payload.n", "quotes"),
    (with_steps("- {id: a, pause_for: approval, payload: {1: x}}"), 3, "steps[0].payload", "text as a key"),
    (with_steps("- {id: a, pause_for: approval, payload: {n: !!binary aGk=}}"),
     3, "steps[0].payload.n", "remove the tag"),
    (step("when: !!python/object/apply:os.system [x]"), 5, "steps[0].when", "remove the tag"),
    (step("env: !foo {A: b}"), 5, "steps[0].env", "remove the tag"),
    # env, secrets, inputs
    (step("env: {A: true}"), 5, "steps[0].env.A", "put it in quotes"),
    (step("env: {A: null}"), 5, "steps[0].env.A", "put it in quotes"),
    (step("env: {A: }"), 5, "steps[0].env.A", "empty where text is due"),
    (step("env: {A: [x]}"), 5, "steps[0].env.A", "a list"),
    (step("env: {A: 0755}"), 5, "steps[0].env.A", "put it in quotes"),
    (step("env: {A: 12:30}"), 5, "steps[0].env.A", "put it in quotes"),
    (step("env: {A-B: x}"), 5, "steps[0].env.A-B", "cannot be a variable"),
    (step("env: {1A: x}"), 5, "steps[0].env.1A", "cannot be a variable"),
    (step("env: {OUTLAST_RUN: x}"), 5, "steps[0].env.OUTLAST_RUN", "set by the runtime"),
    (step("env: {on: x}"), 5, "steps[0].env", 'put it in quotes: "on"'),
    (step("env: [A=b]"), 5, "steps[0].env", "a mapping"),
    (step("env: {A: \"a\\0b\"}"), 5, "steps[0].env.A", "NUL"),
    (step(f"env: {{A: {'x' * 131_072}}}"), 5, "steps[0].env.A", "into a file"),
    (with_steps("- {id: a, run: x}", "secrets: [a-b]\n"), 2, "secrets[0]", "cannot be a variable"),
    (with_steps("- {id: a, run: x}", "secrets: [T, T]\n"), 2, "secrets", "listed twice"),
    (with_steps("- {id: a, run: x}", "secrets: T\n"), 2, "secrets", "a list"),
    (with_steps("- {id: a, run: x}", "env: {T: x}\nsecrets: [T]\n"), 2, "env", "T is a secret"),
    (with_steps("- {id: a, run: x, env: {T: x}}", "secrets: [T]\n"), 4, "steps[0].env", "T is a secret"),
    (with_steps("- {id: a, run: x}", "inputs: [a]\n"), 2, "inputs", "a mapping"),
    (with_steps("- {id: a, run: x}", "inputs: {a: text}\n"), 2, "inputs.a", "string, integer"),
    (with_steps("- {id: a, run: x}", "inputs: {a-b: string}\n"), 2, "inputs.a-b", "cannot be a variable"),
    (with_steps("- {id: a, run: x}", "inputs: {a: string, A: string}\n"), 2, "inputs.A", "OUTLAST_INPUT_A"),
    (with_steps("- {id: a, run: x}", "inputs: {a: {type: integer, default: x}}\n"),
     2, "inputs.a.default", "whole number"),
    (with_steps("- {id: a, run: x}", "inputs: {a: {default: 5}}\n"), 2, "inputs.a.default", "not a text"),
    (with_steps("- {id: a, run: x}", "inputs: {a: {type: integer, default: true}}\n"),
     2, "inputs.a.default", "not a whole"),
    # paths
    (step("writes: [/etc/passwd]"), 5, "steps[0].writes[0]", "not in the flow's folder"),
    (step("writes: ../x"), 5, "steps[0].writes", "leads out"),
    (step("writes: ['a/../../x']"), 5, "steps[0].writes[0]", "leads out"),
    (step("writes: ['**/../x']"), 5, "steps[0].writes[0]", "leads out"),
    (step("reads: ['~/x']"), 5, "steps[0].reads[0]", "not in the flow's folder"),
    (step("reads: [5]"), 5, "steps[0].reads[0]", "put it in quotes"),
    (step("cwd: ..",), 5, "steps[0].cwd", "leads out"),
    ("flow: f\ncwd: a/../..\nsteps: [{id: a, run: x}]\n", 2, "cwd", "leads out"),
    # shells, retries, time limits
    (step("shell: bsah"), 5, "steps[0].shell", "did you mean `bash`?"),
    ("flow: f\nshell: python\nsteps: [{id: a, run: x}]\n", 2, "shell", "give one of: sh, bash"),
    (with_steps("- {id: a, shell: bash, pause_for: approval}"), 3, "steps[0].shell", "does not belong to a pause_for"),
    (step("retries: 2", "retry: {max: 3}"), 6, "steps[0].retry", "`retries` in line 5"),
    (step("retry: 3"), 5, "steps[0].retry", "a mapping"),
    (step("retry: {mxa: 3}"), 5, "steps[0].retry.mxa", "did you mean `max`?"),
    (step("retry: {backoff: 3s}"), 5, "steps[0].retry", "`max` is missing"),
    (step("retry: {max: 1, on_exit: 0}"), 5, "steps[0].retry.on_exit", "out of range"),
    (step("retry: {max: 1, backoff: soon}"), 5, "steps[0].retry.backoff", "no duration"),
    (step("when: {run: x, timout: 1}"), 5, "steps[0].when.timout", "did you mean `timeout`?"),
    (step("when: {timeout: 1s}"), 5, "steps[0].when", "`run` is missing"),
    (step("confirm: {run: x}"), 5, "steps[0].confirm", "only an effect"),
    # items and limits
    (with_steps("- {id: e, foreach: [a]}"), 3, "steps[0].foreach", "a mapping"),
    (each("itmes: [a]"), 3, "steps[0].foreach.itmes", "`items`?"),
    (with_steps("- {id: e, foreach: {steps: [{id: a, run: x}]}}"), 3, "steps[0].foreach", "`items` is missing"),
    (each("items: [a], lines: x"), 3, "steps[0].foreach.lines",
     "both are given"),
    (each("items: []"), 3, "steps[0].foreach.items", "nothing in"),
    (with_steps("- {id: e, foreach: {items: [a]}}"), 3, "steps[0].foreach", "`steps` is missing"),
    (each("lines: ../x"), 3, "steps[0].foreach.lines", "leads out"),
    (each("items: [0755]"), 3, "steps[0].foreach.items[0]", "quotes"),
    (each("items: [a], limit: 0"), 3, "steps[0].foreach.limit",
     "out of range"),
    (with_steps(f"- {{id: e, foreach: {{items: [{LONG * 14}], steps: [{{id: a, run: x}}]}}}}"), 3,
     "steps[0].foreach.items[0]", "140,000 bytes"),
    (with_steps("- {id: e, foreach: {items: [a], steps: [{id: a, run: x}, {id: b, run: x, resume_to: a}]}}"), 3,
     "steps[0].foreach.steps[1].resume_to", "in one branch or item alone"),
    (with_steps("- {id: p, parallel: {limit: 2}}"), 3, "steps[0].parallel", "`steps` is missing"),
    (with_steps("- {id: p, parallel: {limti: 2, steps: [{id: a, run: x}]}}"), 3, "steps[0].parallel.limti", "`limit`?"),
    # other flows
    (with_steps("- {id: a, flow: x.py}"), 3, "steps[0].flow", "no flow file"),
    (with_steps("- {id: a, flow: ~/x.yaml}"), 3, "steps[0].flow", "not in the flow's folder"),
    (with_steps("- {id: a, flow: x.yaml, run: x}"), 3, "steps[0]", "this one is run and flow"),
    (with_steps("- {id: a, flow: x.yaml, timeout: 1}"), 3, "steps[0].timeout", "does not belong to a flow"),
    (with_steps("- {id: a, run: x, inputs: {b: c}}"), 3, "steps[0].inputs", "does not belong to a step"),
    (with_steps("- {id: a, flow: x.yaml, inputs: {b: $OUTLAST_INPUT_B}}"), 3, "steps[0].inputs.b", "no input for"),
    (with_steps("- {id: a, run: x}", "cwd: /tmp\n"), 2, "cwd", "not in the flow's folder"),
    # nesting
    ("flow: f\nsteps: []\n", 2, "steps", "nothing in this list"),
    ("flow: f\nsteps:\n", 2, "steps", "a list of nodes"),
    ("flow: f\nsteps: {id: a}\n", 2, "steps", "a list of nodes"),
    (with_steps("- {id: p, parallel: []}"), 3, "steps[0].parallel", "nothing in this list"),
    (with_steps("- {id: r, repeat: {max: 1, until: x, steps: []}}"),
     3, "steps[0].repeat.steps", "nothing in this list"),
    (with_steps("- {id: r, repeat: {max: 1, steps: [{id: a, run: x}]}}"), 3, "steps[0].repeat", "`until` is missing"),
    (with_steps("- {id: r, repeat: {until: x, steps: [{id: a, run: x}]}}"), 3, "steps[0].repeat", "`max` is missing"),
    (with_steps("- {id: r, repeat: {max: 0, until: x, steps: [{id: a, run: x}]}}"),
     3, "steps[0].repeat.max", "100,000"),
    (with_steps("- {id: r, repeat: {max: 100001, until: x, steps: [{id: a, run: x}]}}"),
     3, "steps[0].repeat.max", "1 to"),
    (with_steps("- {id: r, repeat: 5}"), 3, "steps[0].repeat", "a mapping"),
    # routes
    (step("resume_to: a"), 5, "steps[0].resume_to", "the step itself"),
    (step("resume_to: b"), 5, "steps[0].resume_to", "there is no step 'b'"),
    (with_steps("- {id: a, run: x, resume_to: b}\n- {id: b, run: x, resume_to: a}"), 3, "steps[0].resume_to", "later"),
    (with_steps("- {id: p, parallel: [{id: a, run: x}]}\n- {id: b, run: x, resume_to: a}"),
     4, "steps[1].resume_to", "into"),
    (with_steps("- {id: a, run: x}\n- {id: p, parallel: [{id: b, run: x, resume_to: a}]}"),
     4, "steps[1].parallel[0].resume_to", "out of"),
    (with_steps("- {id: p, parallel: [{id: a, run: x}, {id: b, run: x, resume_to: a}]}"),
     3, "steps[0].parallel[1].resume_to", "same list"),
    (with_steps("- {id: a, run: x}\n- {id: r, repeat: {max: 1, until: x, steps: [{id: b, run: x, resume_to: a}]}}"),
     4, "steps[1].repeat.steps[0].resume_to", "out of"),
    (with_steps("- {id: a, pause_for: approval, on_decline: a}"), 3, "steps[0].on_decline", "the wait itself"),
    (with_steps("- {id: a, pause_for: approval, on_decline: contnue}"),
     3, "steps[0].on_decline", "did you mean `continue`?"),
    (with_steps("- {id: a, pause_for: approval, on_decline: b}\n- {id: p, parallel: [{id: b, run: x}]}"),
     3, "steps[0].on_decline", "inside a repeat or parallel"),
    (with_steps("- {id: b, run: x}\n- {id: p, parallel: [{id: a, pause_for: approval, on_decline: b}]}"),
     4, "steps[1].parallel[0].on_decline", "ends the run or goes on"),
    # YAML itself
    (step("<<: {when: x}"), 5, "steps[0]", "merge keys"),
    (step("? [a]\n    : b"), 5, "steps[0]", "text as a key"),
    ("flow: f\nsteps:\n\t- id: a\n", 3, "", "indent by spaces"),
    ("flow: f\nsteps:\n  - id: a\n\t  run: x\n", 4, "", "indent by spaces"),
    ("flow: f\nsteps:\n  - {id: a, run: echo: b: c}\n", 3, "", "this is not YAML"),
    ("flow: f\nx: a: b\n", 2, "", "put a text that contains `: ` in quotes"),
    ("flow: f\nx: 'open\n", 3, "", "begun in line 2"),
    ("flow: f\nx: [1, 2\n", 3, "", "this is not YAML"),
    ("flow: f\nx: *nope\n", 2, "", "nothing is marked &nope"),
    ("flow: f\nx: &a [*a]\n", 2, "", "inside the very thing it names"),
    ("flow: f\nsteps: [{id: a, run: x}]\n---\nflow: g\n", 3, "", "second document"),
    ("", 1, "", "empty"),
    ("# only a comment\n\n", 1, "", "empty"),
    ("---\n", 1, "", "the file is empty"),
    ("just text", 1, "", "a mapping"),
    ("- a\n", 1, "", "a mapping"),
    ("flow: f\nx: \x1b[0m\n", 2, "", "control character"),
    ("flow: f\nx: " + "[" * 5_000 + "\n", 2, "", "deeper than 40"),
    ("flow: f\n" + "x:\n" + "".join(" " * depth + "- \n" for depth in range(60)), 42, "", "deeper than 40"),
    ("x: [" + "a, " * 25_000 + "]\n", 1, "", "more than 20,000"),
    ("a: &a [1,2,3,4,5,6,7,8,9]\n" + "".join(
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
     ), 5, "", "more than 20,000"),
    ("a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 20 + "*a" + "]" * 20 + "\n", 2, "", "deeper than 40"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "path", "fragment"), BAD, ids=[f"{at}" for at in range(len(BAD))])
def test_a_mistake_is_named_with_its_line_and_advice(text: str, line: int, path: str, fragment: str) -> None:
    found = problems(text)
    said = [str(each) for each in found if each.line == line and each.path.startswith(path)]
    assert any(fragment in each for each in said), [str(each) for each in found]
    assert all(each.why and each.advice for each in found)
    assert all(len(str(each)) < 1_000 for each in found)


SMALL = [each for each in BAD if len(each[0]) < 20_000]


@pytest.mark.parametrize(("text", "line", "path", "fragment"), SMALL, ids=[f"{at}" for at in range(len(SMALL))])
def test_the_slow_parser_finds_the_same(
    text: str, line: int, path: str, fragment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PyYAML was built without its C parser. (It words and places its syntax errors a little differently.)"""
    quick = problems(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    slow = problems(text)
    if "not YAML" not in quick[0].why:
        assert slow == quick
    assert len(slow) == len(quick)


def test_every_mistake_of_a_file_is_named_at_once_in_the_order_of_its_lines() -> None:
    text = """\
flow: build it
imputs: {ticket: string}
steps:
  - id: plan
    timout: 10m
    run: 5
  - {id: plan, pause_for: aproval, on_decline: nowhere}
  - {id: r, repeat: {max: 0, until: x, steps: [{id: x, run: ''}]}}
"""
    found = problems(text)
    assert [(each.line, each.path) for each in found] == [
        (1, "flow"), (2, "imputs"), (5, "steps[0].timout"), (6, "steps[0].run"), (7, "steps[1].id"),
        (7, "steps[1].on_decline"), (7, "steps[1].pause_for"), (8, "steps[2].repeat.max"),
        (8, "steps[2].repeat.steps[0].run"),
    ]  # fmt: skip


def test_one_misspelt_word_is_one_mistake() -> None:
    assert [each.path for each in problems(with_steps("- {id: a, rnu: make}"))] == ["steps[0].rnu"]


def test_the_error_lists_its_problems_and_survives_a_copy() -> None:
    with pytest.raises(RecipeInvalid) as caught:
        parse(step("timout: 1", "retires: 2"))
    error = caught.value
    lines = str(error).splitlines()
    assert lines[0] == "flow.yaml cannot be run as it is:"
    assert lines[1].strip().startswith("line 5, steps[0].timout: the key 'timout' is not known")
    assert lines[2].strip().startswith("line 6, steps[0].retires")
    assert "docs/flow-yaml.md" in lines[-1]
    assert (error.code, error.file, len(error.problems)) == ("recipe_invalid", "flow.yaml", 2)
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    assert problems(b"flow: f\nx: \xff\n")[0][:3] == (2, "", "byte 0xff is not UTF-8")
    assert problems("flow: f\n".encode("utf-16"))[0].line == 1
    assert "NUL byte" in problems(b"flow: f\n\nx: a\0b\n")[0].why
    assert problems(b"flow: f\n\nx: a\0b\n")[0].line == 3
    assert "larger than 1 MiB" in problems(b"#" * ((1 << 20) + 1))[0].why


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "no.yaml", tmp_path / "no" / "no.yaml", Path("a\0b.yaml")):
        with pytest.raises(FlowNotFound, match="cannot load flow"):
            read_flow_file(path)


def test_a_folder_pipe_device_or_loop_is_no_flow_file(tmp_path: Path) -> None:
    pipe, loop, large = tmp_path / "pipe", tmp_path / "loop", tmp_path / "large"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    large.write_bytes(b"# " + b"x" * (1 << 21))
    for path, why in [
        (tmp_path, "a folder"), (pipe, "no regular file"), (Path("/dev/zero"), "no regular file"),
        (loop, "cannot be read"), (tmp_path / LONG, "cannot be read"), (large, "larger than 1 MiB"),
    ]:  # fmt: skip
        with pytest.raises(RecipeInvalid, match=why):
            read_flow_file(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(EXAMPLE)
    file.chmod(0)
    with pytest.raises(RecipeInvalid, match="Permission denied"):
        read_flow_file(file)


# -- anything at all ---------------------------------------------------------------------------------


def refused_or_read(text: bytes) -> None:
    try:
        found: tuple[Any, ...] = parse_flow_file(text, "f").steps
    except RecipeInvalid as error:
        found = error.problems
    assert found


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    refused_or_read(data)


WORDS = st.sampled_from(
    ["flow", "steps", "id", "run", "a", "b", "repeat", "parallel", "max", "until", "env", "inputs", ": ", "- ", "\n",
     "\n  ", "\n    ", "{", "}", "[", "]", ", ", "&a ", "*a", "!!int ", "!x ", "<<", "'", '"', "|", ">", "1", "1.5",
     "yes", "null", "~", "#", "?", "%", "\t", "\u2028", "\x85", "=", "2024-01-01", ".nan", "\\"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS | st.text(max_size=3), max_size=40).map("".join))
def test_text_that_looks_like_yaml_is_read_or_refused(text: str) -> None:
    refused_or_read(text.encode("utf-8", "surrogatepass"))


NAMES = st.sampled_from(
    [*FLOW, *NODE, *ROUNDS, *INPUT, "A", "a", "b", "string", "true", "10m", "approval", "continue", "", "x\0", "\ud800"]
)
VALUES = st.recursive(
    NAMES | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {"flow": NAMES, "steps": st.lists(st.dictionaries(NAMES, VALUES, max_size=5), max_size=3)},
        optional=dict.fromkeys(("inputs", "env", "secrets", "cwd", "other"), VALUES),
    )
)
def test_any_values_under_known_keys_are_read_or_refused(document: Any) -> None:
    refused_or_read(json.dumps(document).encode())


def test_the_code_of_a_flow_file_is_what_it_says_and_not_where(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    nested = (
        "- id: p\n  parallel:\n  - {id: a, run: x}\n  - id: r\n    repeat: {max: 1, until: x, steps: [{id: b, run: x}]}"
    )

    def code(text: str) -> str:
        file.write_text(text)
        return find_flow_file(str(file)).code

    before = code(with_steps(nested))
    assert code("# a comment\n\n" + with_steps(nested)) == before
    assert code(with_steps(nested.replace("id: b, run: x", "id: b, run: y"))) != before
