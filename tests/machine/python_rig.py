"""The same flows written in Python: every process loads them anew."""

from collections.abc import Iterable

from outlast import Receipt

from ..crash.command_folder import KILLED
from .oracle import FILE, Group, Node, Step
from .rig import Rig

HEAD = """\
import os, signal
from pathlib import Path
from outlast import KEY, NOT_DONE, Happened, NotDone, Run, effect, flow, step

HERE = Path(__file__).parent

def text(name):
    return (HERE / name).read_text() if (HERE / name).exists() else ""

def add(name, line):
    with open(HERE / name, "a") as file:
        file.write(line + "\\n")

def act(name, late=False):
    who, _, how = text("arm").partition(" ")
    how = how if who == name else ""
    if not late:
        add("diary", name)
    if how == ("kill late" if late else "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == ("fail late" if late else "fail"):
        raise ValueError(how)
    if how == "refuse" and not late:
        raise NotDone(how)

def probe(key):
    known = (HERE.parent / "world").read_text().split() if (HERE.parent / "world").exists() else []
    return Happened(0) if key in known else NOT_DONE

"""
PLACE = "place = ['']  # the round\n\n"
MARKS = {"step": "@step", "effect": "@effect", "probed": "@effect(confirm=probe)"}


def function_of(step: Step, place: str = "''") -> str:
    """A step as the module has it. `place`: where in a group it is."""
    mark = f"@step(writes={FILE!r}, on_partial={step.writes!r})" if step.writes else MARKS[step.kind]
    work = ["add('../world', me + ' ' + key)"] if step.is_effect else []
    work += [f"add({FILE!r}, 'half')", f"add({FILE!r}, 'whole {step.note}')"] if step.writes else []
    lines = [f"me = {step.id!r} + {place}", "act(me)", *work, "act(me, late=True)", f"return {step.note}"]
    takes = "read='', key=KEY" if step.is_effect else "read=''"
    return "\n".join([mark, f"def {step.id}({takes}):", *(f"    {line}" for line in lines), "", ""])


def call_of(step: Step) -> str:
    read = f"text({step.reads!r})" if step.reads and step.reads != FILE else ""
    return f"    {step.id}({read})\n"


def functions_of(node: Node) -> str:
    if isinstance(node, Step):
        return function_of(node)
    place = {"loop": "place[0]", "each": "'@' + read", "sub": "''"}[node.kind]
    steps = "".join(function_of(step, place) for step in node.steps)
    calls = "".join(map(call_of, node.steps))
    return steps + (f"@flow(name={node.file!r})\ndef {node.file}(run: Run):\n{calls}\n" if node.file else "")


def calls_of(node: Node) -> str:
    if isinstance(node, Step):
        return call_of(node)
    if node.kind == "sub":
        return f"    run.spawn({node.file}).result()\n"
    if node.kind == "each":
        return "".join(f"    run.map({s.id}, {list(node.items)}, key=str, concurrency=1)\n" for s in node.steps)
    calls = "".join(f"    {call_of(step)}" for step in node.steps)
    return f"    for number in range({node.rounds}):\n        place[0] = f'@{{number + 1}}'\n{calls}"


class PythonRig(Rig):
    """A folder with one Python flow and its runs."""

    sees_ahead = False

    def write(self, flow: Iterable[Node]) -> None:
        self.flow = tuple(flow)
        steps = "".join(map(functions_of, self.flow))
        calls = "".join(map(calls_of, self.flow))
        self.folder.write("flow.py", f"{HEAD}{PLACE}{steps}@flow(name='build')\ndef build(run: Run):\n{calls}")

    def scope_of(self, receipt: Receipt) -> str:
        """The round, by its number; the item, by its key."""
        kinds = {s.id: node.kind for node in self.flow if isinstance(node, Group) for s in node.steps}
        match kinds.get(receipt.step, ""):
            case "loop":
                return f"[{receipt.occurrence + 1}]"
            case "each":
                return f"[{receipt.label.rpartition('~')[2]}]"
        return ""

    def go(self, run_id: str, at: str, how: str, accept: Iterable[str] = ()) -> str:
        self.folder.write("arm", f"{at} {how}") if how else self.remove("arm")
        taken = [word for code in accept for word in ("--accept", code)]
        words = ("resume", run_id, *taken, "--why", "w") if run_id else ("run", "flow.py:build")
        said = self.folder.cli(*words, "--json")
        self.remove("arm")
        if said.code == KILLED:
            return "crashed"
        code = (said.json.get("error") or {}).get("code", "") if said.code == 4 else ""
        return code or self.outlast.get(run_id or self.newest()).status
