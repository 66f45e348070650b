"""A handoff: an execution-ready contract for whoever continues. Frozen values only.

Turning what a caller gave into a `Contract` is `contract.py`; what to think of one is `lint.py` and `verdict.py`; how
it is read, in the one order that every door shares, is `reading.py`.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from outlast.clock import moment
from outlast.values.codec import decode, encode
from outlast.values.digest import identity
from outlast.values.frozen import dataclass

MAX_FILES = 200
MAX_CHECKS = 200
MAX_REFS = 100
MAX_BYTES = 1 << 20  # of a whole record
STALE_SECONDS = 30 * 86_400

Form = str | dict[str, Any]  # a check, a must or a rollback exactly as it was given; `contract.py` reads it
Packet = Any  # msgspec.Raw with the bytes as they came, or None; msgspec can decode either, and not their union
Mode = Literal["file", "exec", "link", "absent", "special"]
Runner = Literal["runner", "client", "self"]  # a process of ours there; who sent a request ran it; it is only said
Ending = Literal["completed", "failed", "released"]
ENDINGS: tuple[Ending, ...] = ("completed", "failed", "released")


def key_of(form: Form) -> str:
    """What makes two checks, musts or rollbacks the same one."""
    return identity(encode(form))[:16]


def must_key(name: str, form: Form) -> str:
    """What makes two musts the same one: of a text also which of the three it is, for that is what it asks for."""
    return key_of({"must": name, "text": form} if isinstance(form, str) else form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
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


CONTRACT_FIELDS = tuple(each.name for each in fields(Contract))


@dataclass(frozen=True, slots=True)
class Bound:
    """One file as it was found. Links are not followed: a link's content is the text of its target."""

    mode: Mode
    digest: str = ""  # SHA-256 of the bytes
    blob: str = ""  # git's blob id of the text with LF line ends, so that line ends do not lie; "" unless it is text
    size: int = 0
    kept: str = ""  # the blob that holds the content
    why: str = ""  # why there is none: too_large, over_budget, secret, unreadable, special
    leads: str = ""  # of a link: where it leads to in the end, and what is there

    def same(self, other: Bound) -> bool:
        """Whether both are the same file: the same kind, and the same content but for line ends."""
        if self.mode != other.mode or (self.why == "unreadable") != (other.why == "unreadable"):
            return False
        return self.digest == other.digest or (bool(self.blob) and self.blob == other.blob)

    @property
    def word(self) -> str:
        """The file in short, as reasons say it: `absent`, or its kind and digest."""
        if self.mode == "absent":
            return "absent"
        return f"{self.mode} {(self.blob or self.digest)[:12] or self.why}"


ABSENT = Bound("absent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the files and the repository were when somebody looked."""

    root: str
    host: str
    files: dict[str, Bound] = field(default_factory=dict)  # by path from the root; of a folder all that git would add
    folders: tuple[str, ...] = ()  # the targets that are folders
    environment: dict[str, Bound] = field(default_factory=dict)
    musts: dict[str, Bound] = field(default_factory=dict)  # the files that musts are about; never their content
    commit: str = ""  # "" outside of git, or before the first commit
    branch: str = ""  # "" when detached
    dirty: str = ""  # digest of the other files that differ from the commit; "" when there are none
    dirty_files: tuple[str, ...] = ()  # their names, as many as are kept
    untracked: tuple[str, ...] = ()  # other files that git does not know, as many: they stay behind
    patch: str = ""  # the blob that holds the uncommitted changes
    patch_why: str = ""  # why there is none though something is uncommitted
    prefix: str = ""  # where the root is in its repository; "" at its top, and outside of git
    unkept: dict[str, str] = field(default_factory=dict)  # of musts to keep that did not hold, by key: what was wrong
    known_by: tuple[str, ...] = ()  # the first commits and the remotes of its repository: alike in every clone

    @property
    def stays_behind(self) -> str:
        """The new files that no clone will get from the handoff, and what to do about it; "" without any."""
        names = [path if path.isprintable() else repr(path) for path in self.untracked]
        more = [f"and {len(names) - 5} more"] if len(names) > 5 else []
        advice = "git does not know them: `git add` them, or name them as files"
        return f"{', '.join(names[:5] + more)} ({advice})" if names else ""

    @property
    def blobs(self) -> tuple[str, ...]:
        """Every blob that this refers to, each once."""
        kept = {bound.kept for bound in (*self.files.values(), *self.environment.values())}
        return tuple(sorted((kept | {self.patch}) - {""}))


def absent_targets(contract: Contract, bound: Binding | None) -> tuple[str, ...]:
    """The targets that were not there when somebody looked, and that the work is not to make."""
    made = {path.removesuffix("/") for path in contract.creates}
    files = bound.files if bound else {}
    named = dict.fromkeys(path.removesuffix("/") for _, path in contract.targets)
    return tuple(path for path in named if path not in made and files.get(path, _THERE).mode == "absent")


_THERE = Bound("file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
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
        return key_of(self.check)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that lint found, with a better wording."""

    code: str
    path: str  # the field
    says: str
    better: str


@dataclass(frozen=True, slots=True)
class Lint:
    """How fit a handoff is for being continued from: 100 is execution-ready."""

    score: int
    findings: tuple[Finding, ...] = ()
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """An earlier revision that somebody else stored, and that the author of this one had not read."""

    id: str
    revision: int
    by: str
    host: str
    differs: tuple[str, ...]  # the fields in which the two differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff(Contract):
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
    replayed: bool = field(default=False, compare=False)  # it was stored before, by the same operation_id

    @property
    def stored_at(self) -> datetime:
        return moment(self.stored_us)

    @property
    def expires_at(self) -> datetime:
        return moment(self.expires_us)

    @property
    def blobs(self) -> tuple[str, ...]:
        """Every blob that the revision needs."""
        bound = self.binding.blobs if self.binding else ()
        return tuple(sorted({*bound, *(each.output for each in self.baseline if each.output)}))


@dataclass(frozen=True, slots=True)
class HandoffClaim:
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
