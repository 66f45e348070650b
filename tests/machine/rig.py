"""What the machine works on: a real home, a flow file made of data, and a world outside that counts by key."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import apsw

from outlast import Outlast, Plan, Receipt
from outlast.errors import OutlastError
from outlast.home.home import run_row

from ..crash.command_folder import KILLED, Folder
from ..kit.commands import lives, wait_until
from .oracle import FILE, ROUNDS, Call, Group, Node, Step, call_of, marked, steps_of

# What every step does; where the file `arm` names it, it ends as that says. All of it is built into shells: quick.
ACT = """\
me=${OUTLAST_STEP##*/}
test $OUTLAST_ITERATION = 0 || me=$me@$OUTLAST_ITERATION
test -z "$OUTLAST_ITEM" || me=$me@$OUTLAST_ITEM
echo $me >> diary
arm=; if test -e arm; then read who arm < arm; test "$who" = $me || arm=; fi
case "$arm" in
  fail) exit ${bad:-1};;
  refuse) exit ${bad:-75};;
  kill) echo $$ > killed; kill -9 $RUNTIME; exec sleep 9;;
esac
case $work in
  make) echo half >> made.out; echo whole $note >> made.out;;
  tell) echo $me $OUTLAST_EFFECT_KEY >> ../world;;
esac
case "$arm" in
  "fail late") exit ${bad:-1};;
  "kill late") echo $$ > killed; kill -9 $RUNTIME; exec sleep 9;;
esac
case $work in
  ask) test $OUTLAST_ITERATION -ge $note;;
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
LOOP = Group("fix", "loop", (Step("author"), Step("bill", "probed")))
EACH = Group("each", "each", (Step("item"), Step("send", "effect")))
SUB = Group("sub", "sub", (Step("inner"), Step("charge", "effect")), file="other")
NOT_FOUND = 127  # the exit of a condition that could not be asked
WHY = "the machine says so"
Key = tuple[str, str, str, str, int]  # flow, scope, step, digest and number of a call


def key_of(receipt: Receipt) -> Key:
    return receipt.flow, receipt.scope, receipt.step, receipt.input_digest, receipt.occurrence


def name_of(label: str) -> str:
    """What the diary calls a step, by its label."""
    above, _, step = label.partition("~")[0].rpartition("/")
    _, bracket, place = above.partition("[")
    return f"{step}@{place.rstrip(']')}" if bracket else step


def text_of(step: Step) -> str:
    """A step as the file has it."""
    work = "tell" if step.is_effect else "make" if step.writes else ""
    keys = [f"id: {step.id}", f"run: 'work={work} note={step.note}; . ./act'"]
    keys += ["effect: true", "not_done_exit: 75"] if step.is_effect else []
    keys += [f"confirm: '{PROBE}'"] if step.kind == "probed" else []
    keys += [f"reads: {step.reads}"] if step.reads else []
    keys += [f"writes: {FILE}", f"on_partial: {step.writes}"] if step.writes else []
    keys += [f"resume_to: {step.back}"] if step.back else []
    return f"- {{{', '.join(keys)}}}"


def text_of_node(node: Node) -> str:
    if isinstance(node, Step):
        return text_of(node)
    if node.kind == "sub":
        return f"- {{id: {node.id}, flow: {node.file}.yaml}}"
    steps = "\n".join(f"      {text_of(step)}" for step in node.steps)
    if node.kind == "each":
        return f"- id: {node.id}\n  foreach:\n    items: [{', '.join(node.items)}]\n    steps:\n{steps}"
    until = f"'work=ask bad={NOT_FOUND} note={node.rounds}; . ./act'"
    return f"- id: {node.id}\n  repeat:\n    max: {ROUNDS}\n    until: {until}\n    steps:\n{steps}"


class Rig:
    """A folder with one flow and its runs."""

    sees_ahead = True  # a plan goes through the flow: it knows what comes without a receipt, and what is not asked for

    def __init__(self) -> None:
        self.above = Path(tempfile.mkdtemp(prefix="machine-"))
        self.folder = Folder(self.above / "work")
        self.known: dict[Key, Call] = {}
        self.told: Counter[str] = Counter()  # effects that somebody let happen once more, by key
        self.folder.write("act", ACT)
        self.touch("look.in", "one")
        self.touch("pay.in", "one")

    @property
    def outlast(self) -> Outlast:
        return self.folder.outlast

    @property
    def said(self) -> object:
        """What the command line said the last time."""
        return self.folder.last_said

    def end(self) -> None:
        self.folder.end()
        shutil.rmtree(self.above)

    # -- files -----------------------------------------------------------------------------------

    def write(self, flow: Iterable[Node]) -> None:
        self.flow = tuple(marked(flow))
        self.folder.flow("\n".join(text_of_node(node) for node in self.flow))
        for group in (node for node in self.flow if isinstance(node, Group) and node.kind == "sub"):
            steps = "\n".join(f"  {text_of(step)}" for step in group.steps)
            self.folder.write(f"{group.file}.yaml", f"flow: {group.file}\nsteps:\n{steps}\n")

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
        before = self._attempts()
        said = self.folder.cli(*(("resume", run_id) if run_id else ("run", "flow.yaml")))
        if said.code == KILLED:
            pid = self.folder.number("killed")
            wait_until(lambda: not lives(pid), "the end of what the kill left")
            new = self._attempts() - before
            wait_until(lambda: all((each / "ended").exists() for each in new), "the word of the guard: nothing lives")
        return "crashed" if said.code == KILLED else self.outlast.get(run_id or self.newest()).status

    def killed_at(self, run_id: str, failpoint: str) -> bool:
        """Resume, and die at that point; False if it is not come to."""
        return self.folder.cli("resume", run_id, failpoint=failpoint).code == KILLED

    def _attempts(self) -> set[Path]:
        """The folders of attempts that are under way, or were cut off."""
        return {each for each in (self.folder.path / ".outlast" / "default" / "work").glob("*/*") if each.is_dir()}

    def newest(self) -> str:
        return next(run.id for run in self.outlast.runs() if not run.parent)

    def child(self, run_id: str, flow: str, known: Collection[str]) -> str:
        """The child run of that flow that is not known yet."""
        runs = (run for run in self.outlast.runs() if run.parent == run_id and run.id not in known)
        return next((run.id for run in runs if run.flow.rpartition(":")[2] == flow), "")

    def from_(self, run_id: str, label: str) -> str:
        """`outlast resume --from`."""
        self.folder.cli("resume", run_id, "--from", label, "--why", WHY)
        return self.outlast.get(run_id).status

    def plan(self, run_id: str, **supposed: Any) -> Plan:
        before = self.outlast.get(run_id), self.receipts(run_id)
        plan = self.outlast.plan(run_id, **supposed)
        assert (self.outlast.get(run_id), self.receipts(run_id)) == before, "a plan wrote something"
        return plan

    # -- records ---------------------------------------------------------------------------------

    def receipts(self, run_id: str) -> list[Receipt]:
        return self.outlast.receipts(run_id)

    def learn(self, run_id: str) -> None:
        """Which calls the receipts that are new are about: each name stands once in the flow."""
        files = self.files()
        now = {step.id: call_of(step, files) for step in steps_of(self.flow)}
        for receipt in self.receipts(run_id):
            if key_of(receipt) not in self.known:
                read = now[receipt.step].read if receipt.step in now else ""
                self.known[key_of(receipt)] = Call(receipt.step, read, self.scope_of(receipt))

    def sent_back(self, run_id: str) -> dict[str, int]:
        """How often the flow sent a run back, by the step that said so."""
        told = (event.body for event in self.outlast.events(run_id) if event.name == "run.rewound")
        return dict(Counter(str(body["from"]) for body in told if body.get("from")))

    def scope_of(self, receipt: Receipt) -> str:
        return receipt.scope.rstrip("/")

    def last(self, run_id: str, call: Call) -> Receipt | None:
        """The newest receipt of a call."""
        about = [r for r in self.receipts(run_id) if self.known[key_of(r)] == call]
        return max(about, key=lambda receipt: receipt.attempt, default=None)

    def damage(self, run_id: str, receipt: Receipt, forged: bytes = b'{"result":"forged"}') -> None:
        """Change what a receipt carries, as a disk does."""
        key = run_row(self.outlast._executor.home, run_id).key
        self.folder.close()
        database = apsw.Connection(str(self.folder.path / ".outlast" / "default" / "outlast.db"))
        database.execute("UPDATE journal SET payload = ? WHERE chain = ? AND seq = ?", (forged, key, receipt.seq))
        database.close()
