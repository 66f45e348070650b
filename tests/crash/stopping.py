"""Work that is stopped by signals: flows of commands and of Python that wait for a file, in processes of their own."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from outlast import Outlast, Receipt

from ..ready import Started

PATIENCE_SECONDS = 60.0
FLOWS = Path(__file__).with_name("signal_flows.py")

# `sh work.sh NAME`: says that it began, waits for a file named `go`, says that it is done.
WORK = """
echo "$1" >> diary
echo "$1 is at work"
while [ ! -e go ]; do sleep 0.02; done
echo "$1 done" >> diary
"""
COMMANDS = {
    "two": """
  - {id: one, run: sh work.sh one}
  - {id: two, run: sh work.sh two}
""",
    "repeats": """
  - id: loop
    repeat:
      max: 3
      until: test -e go
      steps:
        - {id: one, run: sh work.sh one}
        - {id: two, run: sh work.sh two}
""",
    "beside": """
  - id: both
    parallel:
      - {id: left, run: sh work.sh left}
      - {id: right, run: sh work.sh right}
  - {id: after, run: sh work.sh after}
""",
    "fails": """
  - {id: flaky, run: "echo try >> diary; test -e go", retries: 9}
""",
    "quick": "".join(f"  - {{id: s{number}, run: 'echo s{number} >> diary'}}\n" for number in range(12)),
    "traps": """
  - id: long
    writes: [draft.txt]
    run: |
      trap 'echo cleaned >> diary; exit 3' TERM INT HUP
      echo $$ > pid; echo half > draft.txt; echo "long is at work"; echo long >> diary
      while [ ! -e go ]; do sleep 0.02; done
""",
    "deaf": """
  - {id: long, run: "trap '' TERM; echo $$ > pid; echo long >> diary; while [ ! -e go ]; do sleep 0.02; done"}
""",
    "publishes": """
  - {id: publish, run: sh work.sh publish, effect: true}
""",
    "publishes_first": """
  - {id: publish, run: sh work.sh publish, effect: true}
  - {id: after, run: sh work.sh after}
""",
    "asks": """
  - id: publish
    run: sh work.sh publish; exit 9
    effect: true
    confirm: sh work.sh probe; exit 0
""",
    "asks_soon": """
  - {id: publish, run: "echo publish >> diary; exit 9", effect: true, confirm: "sh work.sh probe; exit 0"}
""",
    "fragile": """
  - {id: one, run: sh work.sh one, crashes: 1}
""",
    "talks": """
  - {id: talk, run: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; sh work.sh talk"}
  - {id: end, run: echo end >> diary}
""",
    "orphans": """
  - {id: orphans, run: "for i in 1 2 3 4 5 6; do (setsid true &) ; done; sh work.sh orphans"}
""",
}


def wait_until(holds: Callable[[], object], what: str = "it") -> None:
    """Wait for a real condition; fail when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_SECONDS} s"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def hear() -> None:
    """Also when these tests run in the background of a shell, which lets no Ctrl-C through."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def around() -> dict[str, str]:
    """What a process finds around it: nothing of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}


class Work:
    """A folder with flows, and the processes that work on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        (folder / "work.sh").write_text(WORK)
        (folder / "flows.py").write_text(FLOWS.read_text())
        for name, steps in COMMANDS.items():
            (folder / f"{name}.yaml").write_text(f"flow: {name}\nsteps:\n{steps.strip(chr(10))}\n")

    def command(self, *words: str, **how: object) -> subprocess.Popen[bytes]:
        """`outlast WORDS`, its output in the files out and err."""
        return self._python("-m", "outlast", *words, **how)

    def script(self, name: str, *words: str, **how: object) -> subprocess.Popen[bytes]:
        """A program that uses the library: `flows.py NAME WORDS`."""
        return self._python("flows.py", name, *words, **how)

    def _python(self, *words: str, **how: object) -> subprocess.Popen[bytes]:
        if how:
            return self.process([sys.executable, *words], **how)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            self.started.append(Started(words, session=True, cwd=self.folder, env=around(), **files))
        return self.started[-1]

    def process(self, words: Sequence[str], **how: object) -> subprocess.Popen[bytes]:
        given = {"preexec_fn": hear, "start_new_session": True} | how
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err} | given
            made: subprocess.Popen[bytes] = subprocess.Popen(
                words,
                cwd=self.folder,
                env=around(),
                **files,  # type: ignore[call-overload]
            )
        self.started.append(made)
        return made

    def send(self, process: subprocess.Popen[bytes], number: int) -> None:
        """The first signal, and wait until it was heard."""
        process.send_signal(number)
        wait_until(lambda: "again to stop now" in self.err or process.poll() is not None, "hearing the signal")

    def code(self, process: subprocess.Popen[bytes]) -> int:
        return process.wait(PATIENCE_SECONDS)

    def until(self, *lines: str) -> None:
        """Until the diary has these lines."""
        wait_until(lambda: set(lines) <= set(self.diary), f"{lines} in the diary ({self.diary}, {self.err!r})")

    def go(self) -> None:
        (self.folder / "go").touch()

    @property
    def diary(self) -> list[str]:
        file = self.folder / "diary"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def opened(self) -> Outlast:
        return Outlast(self.folder / ".outlast")

    def stands(self) -> tuple[str, list[tuple[str, str]]]:
        """The newest run's status, and its receipts' steps and statuses."""
        with self.opened() as outlast:
            run = outlast.runs(limit=1)[0]
            return run.status, [(receipt.label, receipt.status) for receipt in outlast.receipts(run.id)]

    def due(self) -> list[str]:
        """Why the runs of this folder can go on by themselves."""
        with self.opened() as outlast:
            return [one.reason for one in outlast.due()]

    def receipts(self) -> list[Receipt]:
        with self.opened() as outlast:
            return outlast.receipts(outlast.runs(limit=1)[0].id)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


class Terminal:
    """A terminal of its own for one process, whose controlling terminal it is; what it shows is kept."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.seen = b""

    def adopt(self) -> None:
        """In the child, after its session began: this is its terminal."""
        hear()
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)

    def read_until(self, words: str) -> None:
        import select

        deadline = time.monotonic() + PATIENCE_SECONDS
        while words.encode() not in self.seen:
            assert time.monotonic() < deadline, f"no {words!r} in {self.seen!r}"
            if select.select([self.ours], [], [], 0.2)[0]:
                self.seen += os.read(self.ours, 65536)

    def drain(self) -> None:
        import select

        while select.select([self.ours], [], [], 0)[0]:
            try:
                self.seen += os.read(self.ours, 65536)
            except OSError:
                return

    def press_ctrl_c(self) -> None:
        os.write(self.ours, b"\x03")

    def close(self) -> None:
        for end in (self.ours, self.theirs):
            try:
                os.close(end)
            except OSError:
                continue
