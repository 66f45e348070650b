"""docs/server.md has every path of the server, and no other."""

import re
from pathlib import Path

from outlast.doors.http.app import CALLS

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
TABLE = PAGE.partition("| call | does |")[2].partition("\n\n")[0]
CARE = {"/healthz", "/readyz", "/metrics", "/openapi.json", "/mcp"}


def test_every_path_is_documented_and_no_other() -> None:
    there = {re.sub(r"\{(\w+):\w+\}", r"{\1}", call.path) for call in CALLS}
    shown = set(re.findall(r"(/[a-z0-9][^\s`]*)(?=`)", TABLE))
    assert there - shown == set()
    assert shown - there <= CARE


def test_every_status_that_a_call_can_answer_with_is_documented() -> None:
    from outlast.doors.http.exchange import OF_ERRORS

    table = PAGE.partition("| status | of |")[2].partition("\n\n")[0]
    shown = {int(word) for row in re.findall(r"^\| ([0-9, ]+) \|", table, re.MULTILINE) for word in row.split(", ")}
    assert shown == set(OF_ERRORS.values())
