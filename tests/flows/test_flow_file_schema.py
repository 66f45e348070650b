"""The JSON Schema, the table of keys and the page say the same."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast.flows.yaml.keys import FLOW, INPUT, NODE, PARTS
from outlast.flows.yaml.read import parse_flow_file, schema

from ..kit.flow_files import EXAMPLE, WORK, problems, step, with_steps

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "src" / "outlast" / "flow.schema.json"

REGENERATE = (
    "from pathlib import Path; import json; from outlast.flows.yaml.read import schema; "
    "Path('src/outlast/flow.schema.json').write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + chr(10))"
)


def test_the_schema_in_the_package_is_the_one_the_table_makes() -> None:
    made = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    assert SCHEMA.read_text("utf-8") == made, f'renew it: .venv/bin/python -c "{REGENERATE}"'


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value is valid: the part of JSON Schema that ours uses. An unknown word is an error."""
    checks: dict[str, Callable[[Any], bool]] = {
        "$ref": lambda name: fits(value, schema()["$defs"][name.rpartition("/")[2]]),
        "oneOf": lambda rules: sum(fits(value, each) for each in rules) == 1,
        "anyOf": lambda rules: any(fits(value, each) for each in rules),
        "enum": lambda choices: value in choices,
        "const": lambda only: value is only,
        "type": lambda kind: any(_is(value, each) for each in ([kind] if isinstance(kind, str) else kind)),
        "pattern": lambda pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
        "minLength": lambda least: not isinstance(value, str) or len(value) >= least,
        "maxLength": lambda most: not isinstance(value, str) or len(value) <= most,
        "minimum": lambda least: not isinstance(value, int) or value >= least,
        "maximum": lambda most: not isinstance(value, int) or value <= most,
        "minItems": lambda least: not isinstance(value, list) or len(value) >= least,
        "uniqueItems": lambda _: not isinstance(value, list) or len({str(each) for each in value}) == len(value),
        "items": lambda inner: not isinstance(value, list) or all(fits(each, inner) for each in value),
        "required": lambda names: not isinstance(value, dict) or set(names) <= value.keys(),
        "propertyNames": lambda inner: not isinstance(value, dict) or all(fits(name, inner) for name in value),
        "properties": lambda known: (
            not isinstance(value, dict) or all(fits(value[name], known[name]) for name in value if name in known)
        ),
        "additionalProperties": lambda inner: (
            not isinstance(value, dict)
            or all(inner is not False and fits(value[n], inner) for n in value if n not in rule.get("properties", {}))
        ),
    }
    silent = ("$schema", "title", "description", "$defs")
    return all(checks[word](argument) for word, argument in rule.items() if word not in silent)


def _is(value: Any, kind: str) -> bool:
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    return isinstance(value, types[kind]) and (kind == "boolean" or not isinstance(value, bool))


MORE = with_steps(
    "- id: pages\n  foreach: {lines: pages.txt, limit: 4, steps: [{id: page, run: ./render, shell: bash, cwd: a/..}]}\n"
    "- {id: each, foreach: {items: [1, a, {b: c}], steps: [{id: one, run: x}]}}\n"
    "- {id: both, parallel: {limit: 2, steps: [{id: d, run: x, retry: {max: 2, backoff: 5s, on_exit: [75]}}]}}\n"
    "- {id: sub, flow: lib/other.yaml, when: {run: x, timeout: 10s}, inputs: {t: $OUTLAST_INPUT_T}}\n"
    "- {id: e, run: x, effect: true, confirm: {run: x, timeout: 1}}\n"
    "- {id: r, repeat: {max: 1, until: {run: x, timeout: 1m}, steps: [{id: a, run: x}]}}",
    "inputs: {t: string}\nshell: bash\n",
)


def test_the_schema_takes_what_the_validator_takes() -> None:
    assert parse_flow_file(MORE.encode(), "flow.yaml").shell == "bash"
    assert fits(yaml.safe_load(MORE), schema())
    assert fits(yaml.safe_load(EXAMPLE), schema())
    assert fits(yaml.safe_load(WORK), schema())


SEEN_BY_AN_EDITOR = [
    step("timout: 1"), step("confirm: x"), step("effect: true", "accept: x"), step("timeout: soon"),
    step("retries: -1"),
    with_steps("- run: x"), with_steps("- {id: a/b, run: x}"), with_steps("- {id: a, run: x, pause_for: approval}"),
    with_steps("- {id: a, pause_for: signal}"), with_steps("- {id: r, repeat: {max: 1, steps: [{id: a, run: x}]}}"),
    step("shell: fish"), step("retry: 3"), step("retry: {max: 0}"), step("when: {timeout: 1}"), step("flow: x.yaml"),
    with_steps("- {id: p, parallel: {limit: 2}}"), with_steps("- {id: f, flow: x.py}"),
    with_steps("- {id: e, foreach: {items: [], steps: [{id: a, run: x}]}}"),
    with_steps("- {id: e, foreach: {items: [1]}}"),
    with_steps("- {id: p, parallel: []}"), step("env: {A: true}"), step("env: {OUTLAST_RUN: x}"), step("writes: /etc"),
    with_steps("- {id: a, run: x}", "inputs: {a: text}\n"), "flow: f\nsteps: []\n", "flow: f\n",
]  # fmt: skip


@pytest.mark.parametrize("text", SEEN_BY_AN_EDITOR, ids=[f"{at}" for at in range(len(SEEN_BY_AN_EDITOR))])
def test_the_schema_refuses_what_the_validator_refuses(text: str) -> None:
    assert problems(text)
    assert not fits(yaml.safe_load(text), schema())


def test_every_key_has_its_row_on_the_page_and_its_help_in_the_schema() -> None:
    page = (ROOT / "docs" / "flow-yaml.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    tables = (FLOW, INPUT, NODE, *PARTS.values())
    assert rows >= {name for table in tables for name in table}
    assert all(key.help.endswith(".") for table in tables for key in table.values())


def yaml_blocks() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    block = re.compile(r"^```ya?ml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = [(page.name, match[1]) for page in pages for match in block.finditer(page.read_text("utf-8"))]
    return [(name, text) for name, text in found if re.search(r"^flow:", text, re.MULTILINE)]


def test_every_flow_file_on_the_pages_can_be_run() -> None:
    blocks = yaml_blocks()
    assert "flow-yaml.md" in {name for name, _ in blocks}
    for name, text in blocks:
        assert parse_flow_file(text.encode(), name).steps
        assert fits(yaml.safe_load(text), schema()), name


def test_yaml_is_imported_when_a_file_is_read_and_not_before() -> None:
    program = "import sys, outlast.flows.yaml.read; assert 'yaml' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
