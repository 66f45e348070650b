"""A folder with a flow of commands: run in this process, or by the command line in processes that may be killed.

The command line runs in forked processes, which start at once: the same code, its own signals, files and death.
"""

import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from outlast import Outcome, Outlast, Receipt, failpoints, flow_file
from outlast.commands.leftovers import facts_of
from outlast.home.home import run_row
from outlast.ledger.journal import CALLS, decode_header
from outlast.runs.receipt import Event

from ..kit.commands import wait_until

KILLED = -signal.SIGKILL


class Said(NamedTuple):
    """What a command said, and its exit code; KILLED when it was."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout; anything else there is an error."""
        return json.loads(self.out)


class Child:
    """A command under way."""

    def __init__(self, pid: int, said: Path) -> None:
        self.pid, self._said = pid, said.with_suffix
        self._ended: Said | None = None

    def wait(self) -> Said:
        wait_until(lambda: self.poll() is not None, "the end of the command")
        ended = self.poll()
        assert ended is not None
        return ended

    def poll(self) -> Said | None:
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                out, err = (self._said(suffix).read_text(errors="replace") for suffix in (".out", ".err"))
                self._ended = Said(os.waitstatus_to_exitcode(status), out, err)
        return self._ended

    @property
    def err(self) -> str:
        """What it has said so far on stderr."""
        file = self._said(".err")
        return file.read_text(errors="replace") if file.exists() else ""

    def signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> Said:
        self.signal(signal.SIGKILL)
        return self.wait()

    def children(self) -> list[int]:
        """The processes that it started and that live."""
        found = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(pid) for file in found for pid in file.read_text().split()]

    def guard(self) -> int:
        """Its guard: the child that no command is, known by its script."""
        return next(pid for pid in self.children() if b"mark_the_gone" in Path(f"/proc/{pid}/cmdline").read_bytes())


class Folder:
    """A folder with `flow.yaml`, over many processes."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._hold: Outlast | None = None
        self._children: list[Child] = []

    # -- files -----------------------------------------------------------------------------------

    def flow(self, steps: str, head: str = "", name: str = "build") -> "Folder":
        """Write the flow: its steps, each line as it stands under `steps:`."""
        lines = "".join(f"  {line}\n" for line in steps.strip("\n").splitlines())
        self.write("flow.yaml", f"flow: {name}\n{head}steps:\n{lines}")
        return self

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.write_text(text)
        return file

    def read(self, name: str) -> str:
        file = self.path / name
        return file.read_text() if file.exists() else ""

    def lines(self, name: str = "diary") -> list[str]:
        return self.read(name).splitlines()

    def number(self, name: str) -> int:
        """The pid that a command wrote, as soon as it is there."""
        wait_until(lambda: self.read(name).endswith("\n"), name)
        return int(self.read(name))

    def mirror(self, kind: str, name: str, flow: str = "build") -> Any:
        """A file of the mirror of the only run."""
        (found,) = (self.path / ".outlast" / "runs").glob(f"*/{flow}/{kind}/{name}.json")
        return json.loads(found.read_bytes())

    def everything(self) -> Iterator[tuple[Path, bytes]]:
        """Every file under .outlast, with its bytes."""
        for file in (self.path / ".outlast").rglob("*"):
            if file.is_file():
                yield file, file.read_bytes()

    # -- in this process -------------------------------------------------------------------------

    @property
    def outlast(self) -> Outlast:
        if self._hold is None:
            self._hold = Outlast(self.path / ".outlast", store_options={"synchronous": "OFF"})
        return self._hold

    def run(self, **inputs: Any) -> Outcome[Any]:
        return self.outlast.run(flow_file(self.path / "flow.yaml"), **inputs)

    def resume(self, **how: Any) -> Outcome[Any]:
        return self.outlast.resume(self.run_id, **how)

    @property
    def run_id(self) -> str:
        """The only run there is."""
        (run,) = self.outlast.runs()
        return run.id

    def receipts(self, step: str | None = None) -> list[Receipt]:
        return [one for one in self.outlast.receipts(self.run_id) if step in (None, one.step, one.label)]

    def statuses(self, step: str) -> list[str]:
        return [receipt.status for receipt in self.receipts(step)]

    def facts(self, step: str, status: str = "") -> list[dict[str, Any]]:
        """What the journal notes of each end of an attempt (or of entries of one status), long facts read back."""
        home = self.outlast._executor.home
        key = run_row(home, self.run_id).key
        rows = home.store.read(lambda look: look.journal_of(key))
        found = [(decode_header(row.header), row.payload) for row in rows]
        return [
            facts_of(home, payload)
            for header, payload in found
            if header.kind in CALLS and header.name == step and (header.status == status or not status)
            if status or header.status != "started"
        ]

    def events(self, name: str) -> list[Event]:
        return [event for event in self.outlast.events(self.run_id) if event.name == name]

    def close(self) -> None:
        if self._hold is not None:
            self._hold.close()
            self._hold = None
        for child in self._children:
            child.kill()

    def end(self) -> None:
        """Close it for good: a command that lives on and waits for `go` ends too."""
        self.close()
        if self.path.exists():
            self.write("go", "")

    # -- the command line ------------------------------------------------------------------------

    def cli(self, *words: str, failpoint: str = "", log: str = "", **env: str) -> Said:
        """One command, to its end. It dies at the failpoint `name:n`, or writes down all of them."""
        return self.start(*words, failpoint=failpoint, log=log, **env).wait()

    @property
    def last_said(self) -> Said | None:
        """What the newest command has said, if it is over."""
        return self._children[-1].poll() if self._children else None

    def start(self, *words: str, failpoint: str = "", log: str = "", **env: str) -> Child:
        if self._hold is not None:
            self._hold.close()
            self._hold = None
        said = self.path.parent / f"{self.path.name}-said-{len(self._children)}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: the child starts its own
            pid = os.fork()
        if pid == 0:
            self._live(words, said, failpoint, log, env)
        child = Child(pid, said)
        self._children.append(child)
        return child

    def _live(self, words: tuple[str, ...], said: Path, failpoint: str, log: str, env: dict[str, str]) -> NoReturn:
        code = 1
        try:
            os.setpgid(0, 0)
            for name in [name for name in os.environ if name.startswith("OUTLAST_")]:
                del os.environ[name]
            os.environ.update({"OUTLAST_ACTOR": "local"} | env, RUNTIME=str(os.getpid()))
            os.chdir(self.path)
            _turn_streams(said)
            _import_plainly()
            _arm(failpoint, log)
            from outlast.doors.cli import main

            main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _import_plainly() -> None:
    """Modules are loaded as everywhere, not rewritten for asserts.

    That parses them, and where two threads do so at once CPython 3.11 may let one of them fail with a SystemError.
    """
    sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith("_pytest.")]


def _turn_streams(said: Path) -> None:
    """A process as a shell starts it: its own streams, the default signals, no terminal."""
    for number, name in enumerate((os.devnull, said.with_suffix(".out"), said.with_suffix(".err"))):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _arm(failpoint: str, log: str) -> None:
    name, _, nth = failpoint.partition(":")
    failpoints.arm(failpoints.kill_at(name, int(nth)) if failpoint else failpoints.log_to(log) if log else None)
