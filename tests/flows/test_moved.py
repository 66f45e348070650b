"""A flow whose file was moved goes on; one whose file is still there is another flow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os
from outlast import Outlast, Run, effect, flow, step

@effect
def send(i: int) -> int:
    with open("sent.log", "a") as log:
        log.write(f"{i}\\n")
    return i

@step
def gate(i: int) -> int:
    if not os.path.exists("open"):
        raise RuntimeError("closed")
    return i

@flow
def main(run: Run, i: int) -> int:
    return gate(send(i))

if __name__ == "__main__":
    print(Outlast(".outlast").run(main, 1).status)
"""


def run(folder: Path, script: str) -> str:
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_a_run_whose_script_was_moved_goes_on_from_its_new_place(tmp_path: Path) -> None:
    (tmp_path / "scr.py").write_text(SCRIPT)
    assert run(tmp_path, "scr.py") == "failed"
    (tmp_path / "moved").mkdir()
    (tmp_path / "scr.py").rename(tmp_path / "moved" / "scr.py")
    (tmp_path / "open").touch()
    assert run(tmp_path, "moved/scr.py") == "succeeded"
    assert (tmp_path / "sent.log").read_text() == "1\n"


def test_a_copy_of_a_script_is_a_flow_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "scr.py").write_text(SCRIPT)
    (tmp_path / "twin.py").write_text(SCRIPT)
    assert run(tmp_path, "scr.py") == "failed"
    assert run(tmp_path, "twin.py") == "failed"
    assert (tmp_path / "sent.log").read_text() == "1\n1\n"
