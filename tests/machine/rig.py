"""What the machine works on: a real home, a flow file made of data, and a world outside that counts by key."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import apsw

from outlast import Outlast, Plan, Receipt
from outlast.errors import OutlastError

from ..crash.command_folder import KILLED, Folder
from ..kit.commands import lives, wait_until
from .oracle import FILE, Call, Step, call_of

# What every step does; where the file `arm` names it, it ends as that says. All of it is built into shells: quick.
ACT = """\
echo $OUTLAST_STEP >> diary
arm=; if test -e arm; then read who arm < arm; test "$who" = $OUTLAST_STEP || arm=; fi
case "$arm" in
  fail) exit 1;;
  refuse) exit 75;;
  kill) echo $$ > killed; kill -9 $RUNTIME; exec sleep 9;;
esac
case $work in
  make) echo half > made.out; echo whole $note > made.out;;
  tell) echo $OUTLAST_STEP $OUTLAST_EFFECT_KEY >> ../world;;
esac
case "$arm" in
  "fail late") exit 1;;
  "kill late") echo $$ > killed; kill -9 $RUNTIME; exec sleep 9;;
esac
"""
PROBE = "test -e ../world && while read who key; do test $key != $OUTLAST_EFFECT_KEY || exit 0; done < ../world; exit 1"
FIRST = (
    Step("look", reads="look.in"),
    Step("make", writes="keep"),
    Step("pay", "effect", reads="pay.in"),
    Step("use", reads=FILE),
    Step("mail", "probed"),
)
WHY = "the machine says so"


def text_of(step: Step) -> str:
    """A step as the file has it."""
    work = "tell" if step.is_effect else "make" if step.writes else ""
    keys = [f"id: {step.id}", f"run: 'work={work} note={step.note}; . ./act'"]
    keys += ["effect: true", "not_done_exit: 75"] if step.is_effect else []
    keys += [f"confirm: '{PROBE}'"] if step.kind == "probed" else []
    keys += [f"reads: {step.reads}"] if step.reads else []
    keys += [f"writes: {FILE}", f"on_partial: {step.writes}"] if step.writes else []
    return f"- {{{', '.join(keys)}}}"


class Rig:
    """A folder with one flow and its runs."""

    def __init__(self) -> None:
        self.above = Path(tempfile.mkdtemp(prefix="machine-"))
        self.folder = Folder(self.above / "work")
        self.known: dict[tuple[str, str], Call] = {}  # by name and digest
        self.told: Counter[str] = Counter()  # effects that somebody let happen once more, by key
        self.folder.write("act", ACT)
        self.touch("look.in", "one")
        self.touch("pay.in", "one")

    @property
    def outlast(self) -> Outlast:
        return self.folder.outlast

    def end(self) -> None:
        self.folder.end()
        shutil.rmtree(self.above)

    # -- files -----------------------------------------------------------------------------------

    def write(self, flow: Iterable[Step]) -> None:
        self.flow = tuple(flow)
        self.folder.flow("\n".join(text_of(step) for step in self.flow))

    def touch(self, name: str, text: str) -> None:
        self.folder.write(name, text)

    def remove(self, name: str) -> None:
        (self.folder.path / name).unlink(missing_ok=True)

    def files(self) -> dict[str, str]:
        names = ("look.in", "pay.in", FILE)
        return {name: self.folder.read(name) for name in names if (self.folder.path / name).exists()}

    def diary(self) -> list[str]:
        return self.folder.lines()

    def world(self) -> list[str]:
        """A line for each time that an effect happened: its name and key."""
        file = self.above / "world"
        return file.read_text().splitlines() if file.exists() else []

    # -- going on --------------------------------------------------------------------------------

    def go(self, run_id: str, at: str, how: str, accept: Iterable[str] = ()) -> str:
        """Begin the run, or resume it; how that ended, or the code with which it was refused."""
        self.folder.write("arm", f"{at} {how}") if how else self.remove("arm")
        try:
            ended = self._killed(run_id) if how.startswith("kill") else self._here(run_id, accept)
        except OutlastError as error:
            ended = error.code
        self.remove("arm")
        return ended

    def _here(self, run_id: str, accept: Iterable[str]) -> str:
        outcome = self.outlast.resume(run_id, accept=accept, why=WHY) if run_id else self.folder.run()
        return outcome.status

    def _killed(self, run_id: str) -> str:
        self.remove("killed")
        said = self.folder.cli(*(("resume", run_id) if run_id else ("run", "flow.yaml")))
        if said.code == KILLED:
            pid = self.folder.number("killed")
            wait_until(lambda: not lives(pid), "the end of what the kill left")
        return "crashed" if said.code == KILLED else self.outlast.get(run_id or self.newest()).status

    def newest(self) -> str:
        return self.outlast.runs()[0].id

    def from_(self, run_id: str, label: str) -> str:
        """`outlast resume --from`."""
        self.folder.cli("resume", run_id, "--from", label, "--why", WHY)
        return self.outlast.get(run_id).status

    def plan(self, run_id: str) -> Plan:
        before = self.outlast.events(run_id)
        plan = self.outlast.plan(run_id)
        assert self.outlast.events(run_id) == before, "a plan wrote something"
        return plan

    # -- records ---------------------------------------------------------------------------------

    def receipts(self, run_id: str) -> list[Receipt]:
        return self.outlast.receipts(run_id)

    def learn(self, run_id: str) -> None:
        """Which calls the receipts that are new are about: each name stands once in the flow."""
        files = self.files()
        now = {step.id: call_of(step, files) for step in self.flow}
        for receipt in self.receipts(run_id):
            if (receipt.step, receipt.input_digest) not in self.known:
                self.known[receipt.step, receipt.input_digest] = now[receipt.step]

    def last(self, run_id: str, call: Call) -> Receipt | None:
        """The newest receipt of a call."""
        about = [r for r in self.receipts(run_id) if self.known[r.step, r.input_digest] == call]
        return max(about, key=lambda receipt: receipt.attempt, default=None)

    def damage(self, run_id: str, receipt: Receipt) -> None:
        """Change what a receipt carries, as a disk does."""
        key = self.outlast._runtime.row(run_id).key
        self.folder.close()
        database = apsw.Connection(str(self.folder.path / ".outlast" / "default" / "outlast.db"))
        forged = b'{"result":"forged"}'
        database.execute("UPDATE journal SET payload = ? WHERE run = ? AND seq = ?", (forged, key, receipt.seq))
        database.close()
