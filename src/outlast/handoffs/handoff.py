"""A handoff: an execution-ready contract for whoever continues, and what callers are given about one. Frozen values.

Turning what a caller gave into a `Contract` is `contract.py`; what to think of one is `lint.py` and `verdict.py`; how
it is read, in the one order that every door shares, is `operations/reading.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.files.snapshot import Binding as Binding
from outlast.files.snapshot import BoundMode as BoundMode
from outlast.ledger.verdict import Reason, Verdict
from outlast.values.codec import decode, encode, identity
from outlast.values.frozen import Compared
from outlast.values.text import duration, written_out

MAX_FILES = 200
MAX_CHECKS = 200
MAX_REFS = 100
MAX_BYTES = 1 << 20  # of a whole record
STALE_SECONDS = 30 * 86_400

Form = str | dict[str, Any]  # a check, a must or a rollback exactly as it was given; `contract.py` reads it
Packet = Any  # msgspec.Raw with the bytes as they came, or None; msgspec can decode either, and not their union
Runner = Literal["runner", "client", "self"]  # a process of ours there; who sent a request ran it; it is only said
Ending = Literal["completed", "failed", "released"]
ENDINGS: tuple[Ending, ...] = ("completed", "failed", "released")
Rule = Literal["exists", "absent", "sha256", "contains"]
RULES: tuple[Rule, ...] = ("exists", "absent", "sha256", "contains")
TASK = "task:"  # what the anchor of a task begins with


def anchor_of(task: str) -> str:
    """What a task's handoffs are stored under."""
    return TASK + task


def task_of(anchor: str) -> str | None:
    """The task whose anchor this is; None when it is no task's."""
    return anchor.removeprefix(TASK) if anchor.startswith(TASK) and anchor != TASK else None


def label_of(form: Form) -> str:
    """A check, must or rollback in words."""
    if isinstance(form, str):
        return form
    if "run" in form:
        return f"{form['run']} (in {form['cwd']})" if form.get("cwd") else str(form["run"])
    rule = next((name for name in ("exists", "absent", "contains", "sha256") if name in form), "exists")
    return f"{form.get('file')} {rule} {form[rule]}" if rule in ("contains", "sha256") else f"{form.get('file')} {rule}"


def key_of(form: Form) -> str:
    """What makes two checks, musts or rollbacks the same one."""
    return identity(encode(form))[:16]


def must_key(name: str, form: Form) -> str:
    """What makes two musts the same one: of a text also which of the three it is, for that is what it asks for."""
    return key_of({"must": name, "text": form} if isinstance(form, str) else form)


class FileRule(Struct, frozen=True):
    """What must hold of one file."""

    file: str
    rule: Rule
    value: str = ""  # the digest in small letters, or the text it contains


class CommandCheck(Struct, frozen=True):
    """A check that the host runs. It passes when the command ends with `exit`."""

    run: str
    cwd: str = ""  # from the root; "" is the root
    timeout_seconds: float | None = None
    exit: int = 0


def command_of(form: Form) -> CommandCheck | None:
    """The command that an acceptance check asks for; None for a file rule."""
    if isinstance(form, str):
        return CommandCheck(form)
    if "run" not in form:
        return None
    timeout = duration(form["timeout"]) if "timeout" in form else None
    return CommandCheck(form["run"], form.get("cwd", ""), timeout, form.get("exit", 0))


def rule_of(form: Form) -> FileRule | None:
    """The file rule of a check, must or rollback; None for prose and commands."""
    if isinstance(form, str) or "file" not in form:
        return None
    rule = next(each for each in RULES if each in form)
    value = form[rule] if rule in ("sha256", "contains") else ""
    return FileRule(form["file"], rule, value.lower() if rule == "sha256" else value)


class Contract(Struct, frozen=True, kw_only=True):
    """What the caller gave, checked and not changed. Packets are kept as the bytes they came in."""

    anchor: str
    summary: str
    handoff_text: str
    target_files: tuple[str, ...] = ()
    next_action: str | None = None
    acceptance_checks: tuple[Form, ...] = ()
    must_change: tuple[Form, ...] = ()
    must_remove: tuple[Form, ...] = ()
    must_keep: tuple[Form, ...] = ()
    rollback: tuple[Form, ...] = ()
    execution_state_v1: Packet = None
    execution_packet_v1: Packet = None
    handoff_kind: str = "task_handoff"
    repo_root: str | None = None
    file_path: str | None = None
    symbol: str | None = None
    risk: str | None = None
    tags: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    expires: str | None = None
    supersedes: str | None = None
    refs: tuple[str, ...] = ()  # the evidence it rests on, in the workspace
    creates: tuple[str, ...] = ()  # files that are not there yet: to make them is the work

    @property
    def targets(self) -> tuple[tuple[str, str], ...]:
        """Every file that the work is about, with the field that names it first."""
        named = [(f"target_files[{place}]", path) for place, path in enumerate(self.target_files)]
        named += [("file_path", self.file_path)] if self.file_path is not None else []
        return (*named, *((f"creates[{place}]", path) for place, path in enumerate(self.creates)))

    @property
    def entry(self) -> tuple[str, str]:
        """Where to begin: the first target file, and the symbol in it; empty where none was named."""
        return self.file_path or (self.target_files[0] if self.target_files else ""), self.symbol or ""

    @property
    def musts(self) -> tuple[tuple[str, Form], ...]:
        """Every must with the name of its field."""
        named = (("must_change", self.must_change), ("must_remove", self.must_remove), ("must_keep", self.must_keep))
        return tuple((name, form) for name, forms in named for form in forms)

    @property
    def state(self) -> Any:
        """`execution_state_v1` as a value."""
        return None if self.execution_state_v1 is None else decode(bytes(self.execution_state_v1))

    @property
    def packet(self) -> Any:
        """`execution_packet_v1` as a value."""
        return None if self.execution_packet_v1 is None else decode(bytes(self.execution_packet_v1))


CONTRACT_FIELDS = Contract.__struct_fields__


def absent_targets(contract: Contract, bound: Binding | None) -> tuple[str, ...]:
    """The targets that were not there when somebody looked, and that the work is not to make."""
    if bound is None:
        return ()
    made, files = {path.removesuffix("/") for path in contract.creates}, bound.files
    named = dict.fromkeys(path.removesuffix("/") for _, path in contract.targets)
    return tuple(path for path in named if path not in made and path in files and files[path].mode == "absent")


class Evidence(Struct, frozen=True, kw_only=True):
    """What came of one check."""

    check: Form
    passed: bool
    at: int  # microseconds
    by: str
    where: str  # the host
    runner: Runner  # who ran it
    when: Literal["store", "recover", "verify", "settle"]
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""  # the blob that holds what it printed
    note: str = ""  # timed out, was cut, could not be started
    content: str = ""  # a digest of what it ran on, by `counting.content_of`; "" when that is not known

    @property
    def who(self) -> str:
        """Whose word it is: `runner ann@here`, `client ann@there`, or of what is only reported, `ann`."""
        return self.by if self.runner == "self" else f"{self.runner} {self.by}@{self.where}"

    @property
    def key(self) -> str:
        """What the check is known by, however it is spelt."""
        return key_of(self.check)

    @property
    def label(self) -> str:
        """The check in words."""
        return label_of(self.check)


class Finding(Struct, frozen=True):
    """One thing that lint found, with a better wording."""

    code: str
    path: str  # the field
    says: str
    better: str


class Lint(Struct, frozen=True):
    """How fit a handoff is for being continued from: 100 is execution-ready."""

    score: int
    findings: tuple[Finding, ...] = ()
    weak: bool = False


class Unread(Struct, frozen=True):
    """An earlier revision that somebody else stored, and that the author of this one had not read."""

    id: str
    revision: int
    by: str
    host: str
    differs: tuple[str, ...]  # the fields in which the two differ


class Handoff(Compared, Contract, frozen=True, kw_only=True):
    """One revision under an anchor, exactly as it was stored."""

    id: str
    scope: str
    revision: int
    actor: str
    stored_us: int
    expires_us: int
    lint: Lint
    binding: Binding | None = None  # None: nobody looked at the files
    baseline: tuple[Evidence, ...] = ()  # what came of the checks when it was stored
    masked: tuple[str, ...] = ()  # paths of values in which a secret was masked
    source: str = ""  # who composed it if no caller did: hook, run
    claim: str = ""  # the claim under which it was stored
    rival: str = ""  # who held the claim while somebody else stored this
    rival_id: str = ""  # or stored this earlier revision, which none has superseded yet
    unread: Unread | None = None  # the revision that this one is a rival of, until somebody looks
    reopened: bool = False  # the anchor was finished before
    host: str = ""  # from which it was stored
    door: str = ""  # and by which: python, cli, http, mcp, hook
    worker: str = ""  # a print of the process, or of the terminal, that it was stored in
    key_id: str = ""  # of the API key by which the actor stored it; "" when that was done here
    replayed: bool = False  # it was stored before, by the same operation_id

    @property
    def stored_at(self) -> datetime:
        """When this revision was stored, in UTC."""
        return moment(self.stored_us)

    @property
    def expires_at(self) -> datetime:
        """From when on it counts as expired, in UTC."""
        return moment(self.expires_us)

    @property
    def blobs(self) -> tuple[str, ...]:
        """Every blob that the revision needs."""
        bound = self.binding.blobs if self.binding else ()
        return tuple(sorted({*bound, *(each.output for each in self.baseline if each.output)}))


class HandoffClaim(Struct, frozen=True):
    """The exclusive right to continue a handoff. Whoever shows its id is the claimer."""

    id: str
    anchor: str
    handoff_id: str
    revision: int
    epoch: int
    actor: str
    expires_at: datetime
    run_id: str = ""  # the run whose lease this is, for what was composed from a run
    replayed: bool = False


class _Packets(msgspec.Struct, frozen=True):
    execution_state_v1: msgspec.Raw
    execution_packet_v1: msgspec.Raw


encode_handoff = msgspec.json.Encoder().encode


@cache
def _decoder() -> msgspec.json.Decoder[Handoff]:
    return msgspec.json.Decoder(Handoff)


def decode_handoff(raw: bytes | msgspec.Raw) -> Handoff:
    """The revision that `encode_handoff` wrote, equal to what it was, packets as the bytes they came in."""
    found = _decoder().decode(raw)
    if found.execution_state_v1 is None and found.execution_packet_v1 is None:
        return found
    raws = msgspec.json.decode(raw, type=_Packets)
    state = None if found.execution_state_v1 is None else raws.execution_state_v1
    packet = None if found.execution_packet_v1 is None else raws.execution_packet_v1
    return replace(found, execution_state_v1=state, execution_packet_v1=packet)


# -- what callers are given --------------------------------------------------------------------------


Standing = Literal["open", "claimed", "contested", "finished", "expired"]
STANDINGS: tuple[Standing, ...] = ("open", "claimed", "contested", "finished", "expired")


class TaskRun(Struct, frozen=True):
    """The unfinished run of a handoff's task, and the command that continues it."""

    run_id: str
    flow: str
    status: str
    command: str


class Recovered(Struct, frozen=True):
    """A handoff as it was stored, and how far it may be trusted here and now."""

    verdict: Verdict
    handoff: Handoff
    standing: Standing
    root: str = ""  # where its files were looked at; "" when nobody looked
    evidence: tuple[Evidence, ...] = ()  # of the checks that were run just now
    claim: HandoffClaim | None = None
    resume: Literal["", "attached", "lost"] = ""  # whether the one who asked for the claim got it
    accepted: tuple[str, ...] = ()  # fingerprints of reasons that somebody took upon himself
    outcome: str = ""  # how the anchor was last settled
    run: TaskRun | None = None
    notes: tuple[str, ...] = ()  # what was asked for and not done
    diff: str = ""  # how the files differ that were only edited since; of explicit handoffs `diff` tells

    @property
    def anchor(self) -> str:
        """What the handoff was stored under."""
        return self.handoff.anchor

    @property
    def summary(self) -> str:
        """What the work is, in a line."""
        return self.handoff.summary

    @property
    def next_action(self) -> str | None:
        """What to do first; None when that was not said."""
        return self.handoff.next_action

    @property
    def target_files(self) -> tuple[str, ...]:
        """The files that the work is about."""
        return self.handoff.target_files

    @property
    def acceptance_checks(self) -> tuple[Form, ...]:
        """What must pass when the work is done."""
        return self.handoff.acceptance_checks

    @property
    def handoff_text(self) -> str:
        """The handoff itself, as it was stored."""
        return self.handoff.handoff_text

    @property
    def musts(self) -> dict[str, tuple[Form, ...]]:
        """What must be changed, removed and kept, by the name of the field."""
        stored = self.handoff
        return {"must_change": stored.must_change, "must_remove": stored.must_remove, "must_keep": stored.must_keep}

    @property
    def rollback(self) -> tuple[Form, ...]:
        """How to undo the work."""
        return self.handoff.rollback

    @property
    def execution_state(self) -> Any:
        """What was given as `execution_state_v1`, as a plain value; None when nothing was."""
        return self.handoff.state

    @property
    def execution_packet(self) -> Any:
        """What was given as `execution_packet_v1`, as a plain value; None when nothing was."""
        return self.handoff.packet

    @property
    def risk(self) -> str | None:
        """What may go wrong; None when that was not said."""
        return self.handoff.risk

    @property
    def tags(self) -> tuple[str, ...]:
        """The words that it is filed under."""
        return self.handoff.tags

    @property
    def refs(self) -> tuple[str, ...]:
        """The evidence in the workspace that it rests on."""
        return self.handoff.refs

    @property
    def revision(self) -> int:
        """Which of the handoffs under its anchor it is, from 1."""
        return self.handoff.revision

    @property
    def actor(self) -> str:
        """Who stored it."""
        return self.handoff.actor

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason that the verdict has."""
        return self.verdict.reasons

    @property
    def headline(self) -> str:
        """One line: the verdict, what speaks against it, where to begin and what to do. Long text is shortened."""
        codes = dict.fromkeys(reason.code for reason in self.reasons if reason.weight != "notes")
        verdict = f"{self.verdict.word} ({', '.join(codes)})" if codes else self.verdict.word
        entry = "#".join(filter(None, self.handoff.entry))
        parts = (f"{self.anchor}@{self.handoff.revision}", entry, self.next_action or "no next action")
        return " · ".join([verdict, *(_on_one_line(part) for part in parts if part)])

    @property
    def is_composed(self) -> bool:
        """Whether nobody stored it: it was composed from a run."""
        return self.run is not None and self.handoff.revision == 0

    def handoff_with(self, carry: Callable[[str], str]) -> Handoff:
        """The handoff; what was composed of it through `carry`, since the commands in that are ours."""
        handoff = self.handoff
        if not self.is_composed:
            return handoff
        action = carry(handoff.next_action or "")
        return replace(handoff, next_action=action, handoff_text=carry(handoff.handoff_text))

    def __repr__(self) -> str:
        """In reading order: the verdict and its reasons, then where to begin and what to do."""
        return f"<Recovered {self.headline}>"


def _on_one_line(text: str, length: int = 80) -> str:
    line = written_out(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


class Listed(Struct, frozen=True):
    """One line of the list of handoffs."""

    anchor: str
    scope: str
    standing: Standing
    handoff_id: str
    revision: int
    summary: str
    next_action: str | None
    score: int
    outcome: str
    holder: str
    branch: str
    actor: str
    stored_at: datetime
    expires_at: datetime
    verdict: Verdict | None = None  # only when somebody looked


class Near(Struct, frozen=True):
    """An open handoff that may be meant, and where it was stored: whoever has the files can tell."""

    anchor: str
    handoff_id: str
    symbol: str
    root: str
    commit: str
    prefix: str
    known_by: tuple[str, ...]
    place: int  # the newest ones have the highest, runs above all others
    at: datetime  # stored, or heard of last
    run: str = ""  # how the run stands that it is composed from; "" when it was stored


class Settlement(Struct, frozen=True):
    """How the work under an anchor was settled."""

    anchor: str
    handoff_id: str
    revision: int
    outcome: Ending
    by: str
    at: datetime
    score: int  # of the revision that was settled: beside the outcome it shows what a good handoff is worth
    evidence: tuple[Evidence, ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # what the handoff lacked, says who gave it back
    override: str = ""  # why it counts as completed all the same
    note: str = ""
    replayed: bool = False


class HandoffEvent(Struct, frozen=True):
    """One entry of an anchor's history."""

    seq: int
    kind: str  # stored, claimed, attached, lost, accepted, checked, settled, released
    at: datetime
    by: str
    body: dict[str, Any]
    host: str = ""  # from which it was done
    door: str = ""  # and by which: python, cli, http, mcp, hook

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What came of checks, by this event."""
        return tuple(msgspec.convert(each, Evidence) for each in self.body.get("evidence", ()))
