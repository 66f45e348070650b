"""How far one `@step` call and one handoff's recover walk through our code: calls, files, changes of file.

    python bench/walk.py            # two lines, for people
    python bench/walk.py --frames   # each frame in order, indented by its depth

Only frames of `src/outlast` count, of the thread that makes the call, on the third call of a step and the second of a
recover: those before also import, compile and prepare. A change of file is a call whose caller among our frames lies
in another file.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import outlast
from outlast import Outlast, Run, flow, step

OURS = f"{Path(outlast.__file__).parent}/"


class Walk:
    """The calls of our functions while it is entered, each with its file, its name and its depth among ours."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, str, int]] = []
        self.changes = 0

    def __enter__(self) -> "Walk":
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(OURS) or frame.f_code.co_name.startswith("<"):
            return
        above, depth = frame.f_back, 0
        callers = []
        while above is not None:
            if above.f_code.co_filename.startswith(OURS):
                callers.append(above.f_code.co_filename)
                depth += 1
            above = above.f_back
        self.changes += bool(callers) and callers[0] != file
        self.frames.append((file.removeprefix(OURS), frame.f_code.co_qualname, depth))

    @property
    def told(self) -> str:
        files = {file for file, _, _ in self.frames}
        return f"{len(self.frames)} calls, {len(files)} files, {self.changes} changes of file"


@step
def work(number: int) -> int:
    return number + 1


WALK = Walk()


@flow
def traced(run: Run, number: int) -> int:
    work(number)
    work(number + 1)
    with WALK:
        return work(number + 2)


def of_step(home: Path) -> Walk:
    with Outlast(home) as here:
        here.run(traced, 1).unwrap()
    return WALK


def of_recover(home: Path) -> Walk:
    """A handoff of two files in a git repository, recovered for the second time."""
    place = home.parent / "project"
    place.mkdir()
    for name in ("one.txt", "two.txt"):
        (place / name).write_text(name)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    with contextlib.chdir(place), Outlast(home) as here:
        here.handoff.store(
            *("report", "Check the figures", "The draft is there; check its figures against the sources"),
            target_files=["one.txt", "two.txt"],
            next_action="Check the figures in one.txt",
            acceptance_checks=["test -f one.txt"],
        )
        here.handoff.recover("report")
        with Walk() as walk:
            here.handoff.recover("report")
    return walk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", action="store_true", help="show each frame")
    frames = parser.parse_args().frames
    for name, walked in (("one @step call", of_step), ("one recover", of_recover)):
        with tempfile.TemporaryDirectory() as folder:
            walk = walked(Path(folder) / "home")
        print(f"{name}: {walk.told}")
        for file, function, depth in walk.frames if frames else ():
            print(f"  {'  ' * depth}{file}:{function}")


if __name__ == "__main__":
    main()
