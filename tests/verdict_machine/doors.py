"""The doors to one home: Python, HTTP and real commands, each asked the same and answering in the same words."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from outlast import Outlast
from outlast.errors import OutlastError

from ..doors.server import served
from ..ready import completed


class Answer(NamedTuple):
    """What somebody was told: an error's code, or all the rest."""

    error: str = ""
    word: str = ""
    reasons: frozenset[tuple[str, str, str]] = frozenset()  # weight, code, subject
    accepted: frozenset[tuple[str, str]] = frozenset()  # code, subject: of those that contest, as they are found now
    claim: str = ""  # its id
    revision: int = 0
    id: str = ""
    weak: bool = False
    said: str = ""  # for whoever reads what went wrong


class Invocation(Protocol):
    """Whoever is meant stands in a folder, and shows a claim if he has one."""

    def store(self, who: str, at: Path, anchor: str, claim: str, fields: Mapping[str, Any]) -> Answer: ...
    def recover(self, who: str, at: Path, anchor: str, claim: str, how: Mapping[str, Any]) -> Answer: ...
    def settle(self, who: str, at: Path, anchor: str, claim: str, outcome: str, how: Mapping[str, Any]) -> Answer: ...
    def show(self, who: str, at: Path, anchor: str, revision: int) -> Answer: ...
    def contested(self, who: str, at: Path) -> set[str]: ...
    def close(self) -> None: ...


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# -- Python, and the same over HTTP ------------------------------------------------------------------


class Calls:
    """`outlast.handoff`, of a home or of a server: one object for each of those who work."""

    def __init__(self, opened: Callable[[str], Outlast], ends: ExitStack) -> None:
        self._opened, self._ends, self._by_name = opened, ends, dict[str, Outlast]()

    def _of(self, who: str) -> Outlast:
        if who not in self._by_name:
            self._by_name[who] = self._ends.enter_context(self._opened(who))
        return self._by_name[who]

    def store(self, who: str, at: Path, anchor: str, claim: str, fields: Mapping[str, Any]) -> Answer:
        call = self._of(who).handoff.store
        return self._asked(at, lambda: stored(vars_of(call(anchor=anchor, claim_id=claim or None, **fields))))

    def recover(self, who: str, at: Path, anchor: str, claim: str, how: Mapping[str, Any]) -> Answer:
        call = self._of(who).handoff.recover
        return self._asked(at, lambda: recovered(call(anchor, claim_id=claim or None, **how)))

    def settle(self, who: str, at: Path, anchor: str, claim: str, outcome: Any, how: Mapping[str, Any]) -> Answer:
        call = self._of(who).handoff.settle
        return self._asked(at, lambda: done(call(anchor, outcome, claim_id=claim or None, **how)))

    def show(self, who: str, at: Path, anchor: str, revision: int) -> Answer:
        return self._asked(at, lambda: stored(vars_of(self._of(who).handoff.get(anchor=anchor, revision=revision))))

    def contested(self, who: str, at: Path) -> set[str]:
        with standing_in(at):
            return {each.anchor for each in self._of(who).handoff.list("contested")}

    def _asked(self, at: Path, work: Callable[[], Answer]) -> Answer:
        with standing_in(at):
            try:
                return work()
            except OutlastError as error:
                return Answer(error=error.code, said=str(error))

    def close(self) -> None:
        self._ends.close()


def vars_of(stored: Any) -> dict[str, Any]:
    return {
        "revision": stored.revision,
        "id": stored.id,
        "lint": {"weak": stored.lint.weak, "findings": stored.lint.findings},
    }


def stored(found: Mapping[str, Any]) -> Answer:
    return Answer(revision=found["revision"], id=found["id"], weak=found["lint"]["weak"], said=str(found["lint"]))


def recovered(got: Any) -> Answer:
    reasons = frozenset((each.weight, each.code, each.subject) for each in got.reasons)
    accepted = frozenset(
        (each.code, each.subject) for each in got.verdict.contesting if each.fingerprint in got.accepted
    )
    claim = got.claim.id if got.claim and got.resume == "attached" else ""
    said, handoff = str(got.reasons), got.handoff
    return Answer("", str(got.verdict), reasons, accepted, claim, handoff.revision, handoff.id, said=said)


def done(settled: Any) -> Answer:
    return Answer(word=settled.outcome, revision=settled.revision)


def python(folder: Path) -> Calls:
    return Calls(lambda who: Outlast(folder / "home", actor=who), ExitStack())


def http(folder: Path) -> Calls:
    ends = ExitStack()
    there = ends.enter_context(served(folder / "home"))
    return Calls(lambda who: Outlast(f"http://127.0.0.1:{there.port}", actor=who), ends)


# -- commands ----------------------------------------------------------------------------------------

OPTIONS = {
    "summary": "-m",
    "handoff_text": "--text",
    "next_action": "--next",
    "target_files": "--file",
    "acceptance_checks": "--check",
    "must_keep": "--must-keep",
    "must_change": "--must-change",
    "must_remove": "--must-remove",
    "environment": "--env",
    "creates": "--creates",
    "acknowledged": "--ack",
    "run_checks": "--run-checks",
}


def words_of(given: Mapping[str, Any]) -> Iterator[str]:
    """Options as somebody types them."""
    for name, value in given.items():
        option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
        if value is True:
            yield option
        elif value is not False:
            for each in [value] if isinstance(value, str | dict) else value:
                yield from (option, each if isinstance(each, str) else json.dumps(each))


class Commands:
    """`outlast handoff …`, each a process of its own, without a terminal."""

    def __init__(self, folder: Path) -> None:
        self._home = str(folder / "home")

    def store(self, who: str, at: Path, anchor: str, claim: str, fields: Mapping[str, Any]) -> Answer:
        return self._asked(at, stored, "store", anchor, *words_of(fields), *self._shown(who, claim))

    def recover(self, who: str, at: Path, anchor: str, claim: str, how: Mapping[str, Any]) -> Answer:
        given = dict(how)
        name = f"{anchor}@{given.pop('revision')}" if "revision" in given else anchor
        return self._asked(at, read_recovered, "recover", name, *words_of(given), *self._shown(who, claim))

    def settle(self, who: str, at: Path, anchor: str, claim: str, outcome: str, how: Mapping[str, Any]) -> Answer:
        given = dict(how)
        words = ["--no-checks"] if not given.pop("run_checks", True) else []
        words += [*words_of(given), *self._shown(who, claim)]
        return self._asked(at, lambda said: Answer(word=said["outcome"]), "settle", anchor, outcome, *words)

    def show(self, who: str, at: Path, anchor: str, revision: int) -> Answer:
        return self._asked(at, lambda said: Answer(revision=said["revision"]), "show", f"{anchor}@{revision}")

    def contested(self, who: str, at: Path) -> set[str]:
        return {each["anchor"] for each in self._json(at, "list", "--contested")["handoffs"]}

    def _shown(self, who: str, claim: str) -> list[str]:
        return ["--actor", who, *(["--claim-id", claim] if claim else [])]

    def _asked(self, at: Path, read: Callable[[Any], Answer], *words: str) -> Answer:
        said = self._json(at, *words)
        return Answer(error=said["error"]["code"], said=str(said)) if "error" in said else read(said)

    def _json(self, at: Path, *words: str) -> Any:
        command = ("-m", "outlast", "handoff", *words, "--home", self._home, "--json")
        ended = completed(command, cwd=at, capture_output=True, session=True, timeout=120)
        assert ended.stdout, (words, ended)
        return json.loads(ended.stdout)

    def close(self) -> None:
        """Nothing is open between two commands."""


def read_recovered(said: Mapping[str, Any]) -> Answer:
    reasons = frozenset((each["weight"], each["code"], each["subject"]) for each in said["reasons"])
    accepted = frozenset(
        (each["code"], each["subject"]) for each in said["reasons"] if each["accepted"] and each["weight"] == "contests"
    )
    claim = said["claim"]["id"] if said.get("claim") and said["resume"] == "attached" else ""
    told = json.dumps(said["reasons"])
    return Answer("", said["verdict"], reasons, accepted, claim, said["revision"], said["id"], said=told)


DOORS: Mapping[str, Callable[[Path], Invocation]] = {"python": python, "http": http, "commands": Commands}
