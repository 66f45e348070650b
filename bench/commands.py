"""Outlast, running a flow file: a loop of two commands an iteration, each of them a step."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast import Outcome, Outlast, flow_file

FLOW = """
flow: long
steps:
  - id: loop
    repeat:
      max: 100000
      until: "false"
      steps:
        - id: work
          run: |
            if [ "$OUTLAST_ITERATION" = "$BENCH_ITERATION" ]; then
              [ -z "$BENCH_DIE" ] || kill -9 $PPID
              echo next > /proc/$PPID/fd/1
              exit 3
            fi
"""


class Commands:
    """One long loop, whose steps are the commands in it and its condition."""

    def open(self, home: Path) -> None:
        self.folder = home
        home.mkdir(parents=True, exist_ok=True)
        (home / "flow.yaml").write_text(FLOW)
        self.outlast = Outlast(home / ".outlast")

    def begin(self, steps: int) -> None:
        """Two steps an iteration; the command of the one after them ends this process, or says that it is there."""
        self._run(steps, lambda: self.outlast.run(flow_file(self.folder / "flow.yaml")))

    def go_on(self, steps: int) -> None:
        self._run(steps, lambda: self.outlast.resume(self.outlast.runs(limit=1)[0].id))

    def _run(self, steps: int, work: Callable[[], Outcome[Any]]) -> None:
        os.environ["BENCH_ITERATION"] = str(steps // 2 + 1)
        assert work().status == "failed"
        os._exit(0)

    def close(self) -> None:
        self.outlast.close()


SUBJECTS = {"commands": Commands}
