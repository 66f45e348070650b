"""What a verdict advises can be typed as it stands: the command line takes every command of it, for every anchor."""

from collections.abc import Iterator
from shlex import shlex
from typing import Any

import click
import pytest
from msgspec.structs import replace

from outlast.doors.cli.group import cli
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.foreign import note_of
from outlast.handoffs.handoff import Evidence, Finding, Handoff, Lint, Unread, key_of
from outlast.handoffs.observer import other_place
from outlast.handoffs.verdict import ClaimWork, HandoffFacts, Holder, Observed, reasons_of
from outlast.ledger.verdict import WEIGHTS, Reason

NOW = 1_800_000_000_000_000
CHECK, MUST = "pytest -q 'a b'; true", {"file": "it's.py", "contains": "x y"}
FILES = {name: Bound("file", "1" * 64) for name in ("changed it's.py", "gone.py", "worked.py")}
OF_RUNS = {"effect_in_doubt", "effect_inputs_changed", "resource_missing", "still_running"}
OF_RUNS |= {"code_changed", "inputs_changed", "output_changed", "output_missing", "imported"}
ANCHORS = ("task:x", "-x", "--accept", "--", 'it\'s; a "b" `c` $(d)', "task:x@3")


def evidence(passed: bool, runner: Any = "runner", when: Any = "store", content: str = "") -> Evidence:
    given: dict[str, Any] = {"by": "ann", "where": "here", "runner": runner, "when": when, "content": content}
    return Evidence(check=CHECK, passed=passed, at=NOW, **given)


def handoff(anchor: str, scope: str) -> Handoff:
    binding = Binding(root="/repo", host="here", files=FILES, environment={"uv.lock": Bound("file", "1" * 64)})
    return Handoff(
        anchor=anchor,
        summary="s",
        handoff_text="t",
        id="h1",
        scope=scope,
        revision=1,
        actor="ann",
        stored_us=NOW - 1,
        expires_us=NOW,
        lint=Lint(40, (Finding("no_files", "target_files", "none", "name them"),), True),
        binding=binding,
        acceptance_checks=(CHECK,),
        must_keep=(MUST,),
        masked=("summary",),
        rival="ben",
    )


def everything(anchor: str, scope: str) -> Iterator[Reason]:
    """Every reason that there is."""
    stored = handoff(anchor, scope)
    files = {"changed it's.py": Bound("file", "2" * 64), "worked.py": Bound("file", "3" * 64)}
    seen = Observed(Binding(root="/repo", host="here", files=files), musts={key_of(MUST): "does not contain it"})
    known = HandoffFacts(
        handoff=stored,
        newest=2,
        blobs={"b" * 64: "missing", "c" * 64: "changed"},
        holder=Holder("ben", NOW, False),
        work=(ClaimWork("ann", {**files, "worked.py": FILES["worked.py"]}),),
        evidence=(evidence(True, "self"),),
        composed=True,
    )
    yield from reasons_of(known, seen, NOW)
    yield from reasons_of(replace(known, newest=1, superseded_by=anchor, composed=False), None, NOW)
    yield from reasons_of(replace(known, handoff=replace(stored, binding=None), composed=False), None, NOW)
    yield from reasons_of(replace(known, elsewhere=other_place(stored, "/somewhere else")), None, NOW)
    bare = replace(stored, acceptance_checks=(), target_files=("it's not there.py",))
    bare = replace(bare, binding=Binding(root="/repo", host="here", files={"it's not there.py": Bound("absent")}))
    yield from reasons_of(replace(known, handoff=bare, composed=False), None, NOW)
    moved = {"it's old.py": Bound("file", "1" * 64), "ends.py": Bound("file", "4" * 64, blob="6" * 40)}
    moved |= {"a link": Bound("link", "5" * 64, leads="there file")}
    after = {"ends.py": replace(moved["ends.py"], digest="7" * 64), "a link": replace(moved["a link"], leads="gone")}
    looked = Observed(Binding(root="/repo", host="here", files=after), renamed={"it's old.py": ("it's new.py",)})
    there = replace(stored, binding=Binding(root="/repo", host="here", files=moved))
    yield from reasons_of(replace(known, handoff=there, composed=False), looked, NOW)
    yield from reasons_of(replace(known, broken="it was changed"), None, NOW)
    for there in ((), ("--home", "http://127.0.0.1:7777")):
        note = note_of(stored, "they were imported from a file", *there)
        yield from reasons_of(replace(known, foreign=note), None, NOW)
    for before, now in ((True, False), (False, True)):
        ran = replace(seen, checks={key_of(CHECK): evidence(now, when="verify")})
        based = replace(known, handoff=replace(stored, baseline=(evidence(before),)), evidence=())
        yield from reasons_of(based, ran, NOW)
        yield from reasons_of(known, ran, NOW)
    failed = evidence(False, when="verify", content="what was there then")
    yield from reasons_of(replace(known, evidence=(evidence(True, "self"), failed)), seen, NOW)
    unread = Unread("h0", 1, "ben", "there", ("summary",))
    yield from reasons_of(replace(known, handoff=replace(stored, rival="", revision=2, unread=unread)), seen, NOW)
    was = {"ends.py": Bound("file", "1" * 64, "a" * 40, 1), "link": Bound("link", "1" * 64, leads="a file 1")}
    now_is = {"ends.py": Bound("file", "2" * 64, "a" * 40, 2), "link": replace(was["link"], leads="a file 2")}
    moved = replace(stored, binding=Binding(root="/repo", host="here", files=was | FILES))
    gone = Observed(Binding(root="/repo", host="here", files=now_is), renamed={"gone.py": ("it's here.py",)})
    yield from reasons_of(replace(known, handoff=moved), gone, NOW)
    bound = replace(stored, binding=Binding(root="/repo", host="here", commit="; rm -rf /", branch="main"))
    for branch, relation in (("side", "same"), ("main", "apart"), ("main", "ahead")):
        now_there = Binding(root="/repo", host="here", commit="e" * 40, branch=branch, dirty="d", dirty_files=("z",))
        yield from reasons_of(replace(known, handoff=bound), Observed(now_there, relation), NOW)  # type: ignore[arg-type]


def commands_in(advice: str) -> Iterator[list[str]]:
    """The words of every command, as a shell takes them."""
    words = shlex(advice.replace("`", " ; ") if "handoff" not in advice else advice, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    found: list[str] | None = None
    for word in [*words, ";"]:
        if word == ";" and found is not None:
            yield found
            found = None
        elif found is not None:
            found.append(word)
        elif word == "outlast":
            found = []


def parsed(words: list[str]) -> click.Context:
    """The command as click takes it, not called."""
    found: click.Command = cli
    context = cli.make_context("outlast", words)
    while isinstance(found, click.Group):
        name, command, rest = found.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        found, context = command, command.make_context(name, rest, parent=context)
    return context


@pytest.mark.parametrize("scope", ["default", "-team's"])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_every_command_that_a_reason_advises_is_one(anchor: str, scope: str) -> None:
    reasons = list(everything(anchor, scope))
    for reason in reasons:
        for words in commands_in(reason.advice):
            context = parsed(words)
            if words[0] == "handoff":
                assert (context.params["anchor"], context.params["scope"] or "default") == (anchor, scope), reason
            for accepted in context.params.get("accept", ()):
                assert accepted == f"{reason.code}:{reason.subject}"
                assert context.params["why"] == "WHY"
    assert {reason.code for reason in reasons} == {*WEIGHTS} - OF_RUNS


@pytest.mark.parametrize(
    "code",
    [
        *("claimed", "file_changed", "file_missing", "must_violated", "check_regressed", "evidence_contradicted"),
        *("environment_changed", "self_reported", "checks_not_run", "partial_work", "stale", "superseded", "weak"),
        *(
            "auto_composed",
            "unobserved",
            "foreign_commands",
            "maybe_done",
            "rival",
            "failed_before",
            "integrity_broken",
            "unbound",
        ),
    ],
)
def test_a_reason_that_a_command_helps_with_names_it_whole(code: str) -> None:
    reasons = [reason for reason in everything("task:x", "default") if reason.code == code]
    assert reasons
    assert all(list(commands_in(reason.advice)) for reason in reasons)


def test_what_contests_can_be_accepted_by_the_command_that_is_advised() -> None:
    for code in ("file_changed", "file_missing", "must_violated", "check_regressed", "evidence_contradicted"):
        reason = next(reason for reason in everything("task:x", "default") if reason.code == code)
        params = parsed(list(commands_in(reason.advice))[-1]).params
        assert (params["claim"], params["accept"]) == (True, (f"{code}:{reason.subject}",))
        assert not params["run_checks"]  # that may settle it, and leave nothing to accept


def test_a_commit_that_came_from_elsewhere_is_no_command_of_its_own() -> None:
    advised = {reason.advice for reason in everything("task:x", "default") if reason.subject == "commit"}
    assert len(advised) == 2
    assert all(advice.endswith(" '; rm -rf /'..HEAD") for advice in advised)
