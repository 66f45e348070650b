"""The measured side: one process, one subject, one home.

`child.py MODULE VARIANT HOME serve` answers requests on stdin with what they took, as JSON lines.
`child.py MODULE VARIANT HOME begin|go_on STEPS` runs one long run until `work.py` stops it.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any, Protocol


class Subject(Protocol):
    """What is measured. A module lists its variants, by name, in `SUBJECTS`."""

    def open(self, home: Path) -> None: ...
    def sequential(self, steps: int) -> None:
        """One run of `steps` steps, each synced before the next begins."""

    def together(self, runs: int, steps: int) -> None:
        """`runs` runs at once, of `steps` steps each."""

    def begin(self, steps: int) -> None:
        """A run of `steps` steps and one more, in which the process ends."""

    def go_on(self, steps: int) -> None:
        """Continue what `begin` left, up to that one more step."""

    def close(self) -> None: ...


def serve(subject: Subject, answers: IO[str]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(timed(subject, **request)), file=answers, flush=True)


def timed(subject: Subject, verb: str, **arguments: Any) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    getattr(subject, verb)(**arguments)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def only_ours() -> IO[str]:
    """The real stdout; whatever a library prints goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def main(module: str, variant: str, home: str, verb: str, *steps: str) -> None:
    answers = only_ours() if verb == "serve" else None
    subject: Subject = importlib.import_module(module).SUBJECTS[variant]()
    subject.open(Path(home))
    if answers is not None:
        serve(subject, answers)
        subject.close()
    else:
        getattr(subject, verb)(int(steps[0]))
        sys.exit(f"{module} {variant} went past the step it was to stop in")


if __name__ == "__main__":
    main(*sys.argv[1:])
