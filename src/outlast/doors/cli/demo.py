"""`outlast demo`: the whole story on a throw-away home, with real processes and real kills."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import NoReturn

import click

from outlast.doors.cli.entry import FAILED, SUCCEEDED
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import emit, say

FLOW = "report.py:daily"
REPORT = r'''"""A daily report. Every function writes in diary.txt when it really runs."""

import time
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step


def diary(line: str) -> None:
    with Path("diary.txt").open("a") as file:
        file.write(line + "\n")


@step  # a step may run again until it has succeeded
def find_sources(topic: str) -> list[str]:
    diary("find_sources")
    return [f"{topic} source {n}" for n in (1, 2, 3)]


@step
def write_draft(sources: list[str]) -> str:
    diary("write_draft")
    time.sleep(1.5)  # a slow model
    return f"A report on {len(sources)} sources."


def find_published(key: str) -> object:  # asks the other side whether it has it
    return Happened(f"site/{key}") if Path("site", key).exists() else NOT_DONE


@effect(confirm=find_published)  # an effect is never repeated unknowingly
def publish(report: str, *, key: str = KEY) -> str:
    Path("site").mkdir(exist_ok=True)
    Path("site", key).write_text(report)
    diary("publish")
    time.sleep(1.5)  # a slow network: the site has it, the answer is on its way
    return f"site/{key}"


@effect  # nobody can ask a chat whether it got a message
def notify(to: str, link: str) -> str:
    diary("notify")
    time.sleep(1.5)
    return f"told {to}"


@flow
def daily(run: Run, topic: str) -> str:
    sources = find_sources(topic)
    report = write_draft(sources)
    link = publish(report)
    return notify("#team", link)
'''
PATIENCE_SECONDS = 30.0
WIDTH = 76


@command("demo")
@click.option("--keep", is_flag=True, help="Keep the folder to look around in; says where it is.")
def demo(call: Invocation, keep: bool) -> int:
    """The whole story on a throw-away home: killed three times, nothing done twice.

    Real processes, real kill -9, a few seconds, no input needed. Leaves nothing behind.
    """
    folder = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
    story = DemoFolder(folder, quiet=call.json)
    try:
        tell(story)
    except Unexpected as error:
        story.say(f"The demo went wrong: {error}")
    finally:
        ran = story.ran
        story.end()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        story.say(f"Kept: cd {folder} && outlast runs")
    if call.json:
        emit({"ok": story.happy, "seconds": round(story.seconds, 1), "commands": story.commands, "ran": ran})
    return SUCCEEDED if story.happy else FAILED


class Unexpected(Exception):
    """A command of the demo did not do what the story says."""


class DemoFolder:
    """A folder to play in: runs commands, kills them, and tells about it."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.folder, self.quiet = folder, quiet
        self.commands: list[dict[str, object]] = []
        self.happy = False
        self._started = time.monotonic()
        self._child: subprocess.Popen[str] | None = None
        (folder / "report.py").write_text(REPORT)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        self._environment = {**kept, "OUTLAST_HOME": str(folder / ".outlast"), "PYTHONUNBUFFERED": "1"}

    # -- telling -------------------------------------------------------------------------------------

    def say(self, text: str = "", style: str = "") -> None:
        if not self.quiet:
            for line in textwrap.wrap(text, WIDTH) or [""]:
                say(line, style)

    def head(self, text: str) -> None:
        self.say()
        self.say(text, "bold")
        self.say("-" * len(text), "dim")

    def code(self, text: str) -> None:
        if not self.quiet:
            for line in text.replace(f" --home {self._environment['OUTLAST_HOME']}", "").splitlines():
                say(f"  {line}", "dim")

    # -- doing ---------------------------------------------------------------------------------------

    def run(self, *words: str, expect: int, show: bool = True) -> str:
        """Run a command to its end."""
        child = self._begin(words)
        output, _ = child.communicate(timeout=PATIENCE_SECONDS)
        self._over(words, child.returncode)
        if show:
            self.code(output)
        if child.returncode != expect:
            self._wrong(f"`outlast {shlex.join(words)}` exited {child.returncode}, not {expect}", output)
        return output

    def run_and_kill(self, *words: str, when: str) -> None:
        """Run a command and kill it as soon as the diary has the line `when`."""
        child = self._begin(words)
        before, until = self.ran.get(when), time.monotonic() + PATIENCE_SECONDS
        while self.ran.get(when) == before:
            if child.poll() is not None or time.monotonic() > until:
                child.kill()
                self._wrong(f"`outlast {shlex.join(words)}` never came to {when}", child.communicate()[0])
            time.sleep(0.01)
        time.sleep(0.2)
        child.send_signal(signal.SIGKILL)
        output, _ = child.communicate(timeout=PATIENCE_SECONDS)
        self._over(words, child.returncode)
        self.code(output)
        self.say(f"$ kill -9 {child.pid}        # in the middle of {when}", "red")

    def _begin(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        if not self.quiet:
            say(f"$ outlast {shlex.join(words)}", "cyan")
            sys.stdout.flush()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "outlast", *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        return self._child

    def _over(self, words: tuple[str, ...], code: int) -> None:
        self.commands.append({"command": f"outlast {shlex.join(words)}", "exit": code})

    def _wrong(self, why: str, output: str) -> NoReturn:
        self.code(output)
        raise Unexpected(why)

    @property
    def ran(self) -> dict[str, int]:
        """How often each function really ran, from the diary that they write themselves."""
        diary = self.folder / "diary.txt"
        return dict(Counter(diary.read_text().splitlines())) if diary.exists() else {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def end(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()


def tell(story: DemoFolder) -> None:
    """Four acts: a step killed, an effect killed that can be asked about, one that cannot, and the proof."""
    _open(story)
    _killed_and_continued(story)
    _killed_in_doubt(story)
    _proof(story)


def _open(story: DemoFolder) -> None:
    story.say(
        "Agent work gets killed: out of memory, a deploy, a closed laptop. We run a small report flow and kill it "
        "three times with kill -9. Watch what is repeated and what is not."
    )
    story.say()
    source = (story.folder / "report.py").read_text()
    story.code(source[source.index("@flow") :])
    story.say(
        "Two steps, then two effects: things the world sees and that must never happen twice. "
        "Each function also notes in a diary that it really ran."
    )


def _killed_and_continued(story: DemoFolder) -> None:
    story.head("1. Killed in the middle of a step")
    story.run_and_kill("run", FLOW, "topic=ai", when="write_draft")
    story.head("2. The same command again: finished steps are not repeated")
    story.say(
        "find_sources has a receipt and is not run again; write_draft is. Then we kill it in publish, after the "
        "site got the report and before we heard so."
    )
    story.say()
    story.run_and_kill("run", FLOW, "topic=ai", when="publish")


def _killed_in_doubt(story: DemoFolder) -> None:
    story.head("3. Was it published? Its confirm probe asks the site")
    story.say("It was: nothing is published twice, and the run goes on. We kill it once more, in notify.")
    story.say()
    story.run_and_kill("resume", when="notify")
    story.head("4. Was the team told? Nobody can know, so a person is asked")
    output = story.run("resume", expect=4)
    run_id = output[output.index("run ") :].split()[1]
    story.say()
    story.say("We look in the chat, and the message is there. That goes on the record:")
    story.run("skip", run_id, "notify", "--result", '"told #team"', "--why", "I saw it", expect=0)
    story.run("resume", run_id, expect=0)


def _proof(story: DemoFolder) -> None:
    story.head("5. The proof")
    story.run("runs", expect=0)
    story.run("verify", expect=0)
    ran = story.ran
    story.say("The diary, written by the functions themselves:")
    story.code("\n".join(f"{name:<13} ran {number} time{'s' * (number > 1)}" for name, number in ran.items()))
    story.happy = ran == {"find_sources": 1, "write_draft": 2, "publish": 1, "notify": 1}
    if not story.happy:
        raise Unexpected("something ran more often than it should")
    story.say(
        f"Three kills in {story.seconds:.0f} seconds. Only write_draft ran twice: it was cut off before it had "
        "succeeded."
    )
    story.say()
    story.say("Your turn: decorate your own functions, then")
    story.code("outlast run your_file.py:your_flow")
