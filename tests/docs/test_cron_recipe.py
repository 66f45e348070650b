"""The lines of the cookbook for cron do what the page says of them: the work of a day is done once, however often."""

import re
import subprocess
import sys
from pathlib import Path

from .test_snippets import ROOT, environment, fences

PAGE = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
FLOW = "flow: nightly\nsteps:\n  - {id: pay, run: echo paid >> paid.txt, effect: true, confirm: test -f paid.txt}\n"


def commands() -> list[str]:
    """What cron hands to the shell: the line without its times, and without the backslash that cron takes off."""
    text = next(fence.text for fence in fences(PAGE.partition("## Every night, by cron")[2]))
    return [re.sub(r"^(\S+\s+){5}", "", line).replace("\\%", "%") for line in text.splitlines()]


def cron(command: str, folder: Path) -> None:
    """Hand it to the shell, on a certain day, in the folder that stands for the page's."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in {"outlast": f'exec {sys.executable} -m outlast "$@"', "date": "echo 2026-11-16"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    path = environment() | {"PATH": f"{tools}:{environment()['PATH']}"}
    subprocess.run(["sh", "-c", command.replace("/srv/reports", str(folder))], env=path, check=True, timeout=60)


def test_the_line_for_cron_does_the_work_of_a_day_once(tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text(FLOW)
    start, tick = commands()
    for command in (start, start, tick, start):
        cron(command, tmp_path)
    assert (tmp_path / "paid.txt").read_text() == "paid\n"
    assert (tmp_path / "cron.log").read_text().count("succeeded") >= 3
