"""Flow files that the tests of flow files share, and how they are read."""

import pytest

from outlast.errors import RecipeInvalid
from outlast.flows.yaml.model import FlowDefinition
from outlast.flows.yaml.read import parse_flow_file
from outlast.values.yaml_tree import FlowFileProblem

EXAMPLE = """\
flow: build
inputs: {ticket: string}
env: {MODEL: large}
secrets: [API_TOKEN]              # demanded before the first step; masked, never stored or digested
steps:
  - id: plan
    agent: planner
    run: ./agent "write plan.md for $OUTLAST_INPUT_TICKET"
    writes: [plan.md]
    timeout: 10m
    retries: 2
  - id: approve
    pause_for: approval           # a decline ends the run (aborted, declined) unless on_decline: STEP | continue
    payload: {file: plan.md}
  - id: fix
    repeat:                       # author and critic, until accepted
      max: 5
      until: pytest -q
      on_limit: pause
      steps:
        - {id: author, run: ./agent "fix", writes: ["src/**"]}
        - {id: critic, run: ./agent "review > review.md", writes: [review.md]}
  - id: checks
    parallel:
      - {id: lint, run: ruff check}
      - {id: types, run: mypy src, when: test -f mypy.ini}
  - id: release
    run: ./release.sh "$OUTLAST_EFFECT_KEY"
    effect: true
    confirm: ./was-released.sh "$OUTLAST_EFFECT_KEY"    # 0 happened (stdout: the result), 1 not done, else unknown
    not_done_exit: [75]
"""


def parse(text: str | bytes) -> FlowDefinition:
    return parse_flow_file(text.encode() if isinstance(text, str) else text, "flow.yaml")


def problems(text: str | bytes) -> list[FlowFileProblem]:
    with pytest.raises(RecipeInvalid) as caught:
        parse(text)
    found: list[FlowFileProblem] = list(caught.value.problems)
    return found


def with_steps(steps: str, head: str = "") -> str:
    return f"flow: f\n{head}steps:\n" + "".join(f"  {line}\n" for line in steps.splitlines())


def step(*lines: str) -> str:
    """A file whose one step has these lines, from line 5 on."""
    return "flow: f\nsteps:\n  - id: a\n    run: make\n" + "".join(f"    {line}\n" for line in lines)


WORK = with_steps("- {id: a, run: make, env: {A: x}, cwd: sub, accept: make test}", "env: {B: y}\n")
