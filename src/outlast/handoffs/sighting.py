"""What a request says of the files of a handoff, checked: a server looks at nothing (`RequestObserver`).

Only what the handoff names counts, and only content that is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.errors import HandoffInvalid, LookFirst, RunsOnHost
from outlast.files.changes import Patterns, is_hidden
from outlast.files.snapshot import UNBOUND, Binding, Bound, Relation
from outlast.handoffs.evidence import DIGEST, LONGEST, NOTE, Ran, When, evidence_of
from outlast.handoffs.handoff import Contract, Handoff, encode_handoff, must_key, rule_of
from outlast.handoffs.musts import pattern_of, rule_of_must
from outlast.handoffs.observer import LOCAL, PLACES, Between, LocalObserver
from outlast.handoffs.verdict import Observed
from outlast.values.codec import decode, path_of, text

if TYPE_CHECKING:
    from outlast.files.snapshot import ContentKeeper
    from outlast.handoffs.foreign import Leave
    from outlast.handoffs.handoff import Evidence, Form
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

FILES = 20_000
MARKS = 100  # of what a repository is known by
_GIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ALL = "send what was found of each of them, or look again"


class Sighting(Struct, frozen=True, kw_only=True):
    """How the files of one handoff were found. An empty root: they were looked for, and are not `here`."""

    handoff_id: str
    root: str = ""
    here: str = ""
    binding: Binding | None = None
    relation: Relation = "none"
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of bound files that are gone: where now
    musts: Mapping[str, str] = field(default_factory=dict)  # of every rule about a file, by key: "" or what is wrong
    ran: tuple[Ran, ...] | None = None  # None: no check_sighting was run


# -- a binding ---------------------------------------------------------------------------------------


def checked_binding(caller: Caller, bound: Binding, contract: Contract) -> Binding:
    """A binding as it may be stored: of the contract's files and no others, its content here. Raises HandoffInvalid."""
    targets = {text(normpath(path)) for _, path in contract.targets}
    environment = {text(normpath(path)) for path in contract.environment}
    refuse_odd(bound, "binding")
    _refuse_missing({*bound.files, *bound.folders}, targets, "binding.files")
    _refuse_missing(bound.environment, environment, "binding.environment")
    _refuse_others(bound.folders, targets, "binding.folders")
    _refuse_others(bound.environment, environment, "binding.environment")
    _refuse_unmeant(bound, contract, "binding")
    for path in bound.files:
        if path not in targets and not any(_is_below(path, folder) for folder in bound.folders):
            raise _other(f"binding.files[{path!r}]")
    for name in bound.blobs:
        if not (caller.has_content(name) and caller.home.blobs.renew(name)):
            why = f"the content {name[:12]}… is not here"
            raise HandoffInvalid("binding", why, f"send it first: PUT /v1/handoff/blobs/{name}")
    return _without_own_secrets(caller.home, bound)


def _refuse_unmeant(bound: Binding, contract: Contract, field: str) -> None:
    """Raises HandoffInvalid for files and musts that no must of the contract is about."""
    meant = Patterns.of(filter(None, (pattern_of(form) for _, form in contract.musts)))
    named = {rule.file.rstrip("/") for _, form in contract.musts if (rule := rule_of(form))}
    for path in bound.musts:
        if path not in named and not meant.matches(path_of(path)):
            raise _other(f"{field}.musts[{path!r:.200}]")
    _refuse_others(bound.unkept, {must_key("must_keep", form) for form in contract.must_keep}, f"{field}.unkept")
    if any(len(said) > NOTE for said in bound.unkept.values()):
        raise HandoffInvalid(f"{field}.unkept", f"more than {NOTE:,} characters", "send less")


def _is_below(path: str, folder: str) -> bool:
    return folder in (".", "./") or path.startswith(f"{folder}/")


def _refuse_missing(found: Iterable[str], wanted: set[str], field: str) -> None:
    if lacking := sorted(wanted - set(found)):
        raise HandoffInvalid(field, f"{lacking[0]!r} is missing", _ALL)


def _refuse_others(found: Iterable[str], wanted: set[str], field: str) -> None:
    if others := sorted(set(found) - wanted):
        raise _other(f"{field}[{others[0]!r}]")


def _other(field: str) -> HandoffInvalid:
    return HandoffInvalid(field, "it is no file that the handoff names", "send what was found of its own files")


def refuse_odd(bound: Binding, field: str) -> None:
    """Raises HandoffInvalid for what no look at files could have found."""
    for name, files in (("files", bound.files), ("environment", bound.environment), ("musts", bound.musts)):
        if len(files) > FILES:
            raise HandoffInvalid(f"{field}.{name}", f"has {len(files)} files; the limit is {FILES:,}", "name fewer")
        for path, each in files.items():
            _refuse_odd_file(f"{field}.{name}[{path!r:.200}]", path, each)
    for folder in bound.folders:
        _refuse_odd_path(f"{field}.folders[{folder!r:.200}]", folder)
    for name, said, form in (("commit", bound.commit, _GIT_ID), ("dirty", bound.dirty, DIGEST)):
        if said and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send what git says, or leave it out")
    if bound.patch and not DIGEST.fullmatch(bound.patch):
        raise HandoffInvalid(f"{field}.patch", "it is no digest of content", "send the content's SHA-256")
    if bound.prefix:
        _refuse_odd_path(f"{field}.prefix", bound.prefix)
    if len(bound.known_by) > MARKS or any(len(each) > LONGEST for each in bound.known_by):
        raise HandoffInvalid(f"{field}.known_by", f"it has more than {MARKS}, or too long ones", "send fewer")
    for name in ("root", "host", "branch", "patch_why"):
        if len(getattr(bound, name)) > LONGEST:
            raise HandoffInvalid(f"{field}.{name}", f"it has more than {LONGEST} characters", "send a shorter one")


def _refuse_odd_file(field: str, path: str, bound: Bound) -> None:
    _refuse_odd_path(field, path)
    if bound.kept and bound.kept != bound.digest:
        raise HandoffInvalid(f"{field}.kept", "it is not the content's digest", "send the same as digest")
    for name, form in (("digest", DIGEST), ("blob", _GIT_ID)):
        if (said := getattr(bound, name)) and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send the digest in lower-case hex")
    if bound.size < 0 or max(len(bound.why), len(bound.leads)) > 2 * LONGEST:
        raise HandoffInvalid(field, "its size, why or leads cannot be", "send what was found")


def _refuse_odd_path(field: str, path: str) -> None:
    real = path_of(path)
    parts = real.split("/")
    wrong = not real or len(real) > LONGEST or real.startswith("/") or "\0" in real
    if wrong or ".." in parts or is_hidden(real):
        raise HandoffInvalid(field, "it is no path inside the root", "name files from the root, without `..`")


def _without_own_secrets(home: Home, bound: Binding) -> Binding:
    """Content in which a rule of this home's own finds a secret is not kept: who sent it did not know the rule."""
    if not home.secrets.own:
        return bound
    files = {path: _kept_if_clean(home, each) for path, each in bound.files.items()}
    if bound.patch and not _is_clean(home, bound.patch):
        bound = replace(bound, patch="", patch_why="secret")
    return replace(bound, files=files)


def _kept_if_clean(home: Home, bound: Bound) -> Bound:
    return bound if not bound.kept or _is_clean(home, bound.kept) else replace(bound, kept="", why="secret")


def _is_clean(home: Home, name: str) -> bool:
    return not home.secrets.are_in(home.blobs.get(name), own=True)


# -- a sighting --------------------------------------------------------------------------------------


def lacks(sighting: Sighting, handoff: Handoff) -> bool:
    """Whether something of the handoff was not looked at."""
    return bool(sighting.root) and any(True for _ in _lacking(sighting, handoff))


def check_sighting(sighting: Sighting, handoff: Handoff) -> None:
    """Raises HandoffInvalid for a sighting that is not of this handoff's files, all of them and no others."""
    field = f"observed[{handoff.id!r}]"
    for name, said in (("root", sighting.root), ("here", sighting.here)):
        if len(said) > LONGEST:
            raise HandoffInvalid(f"{field}.{name}", f"it has more than {LONGEST} characters", "send a shorter one")
    if not sighting.root:
        return
    for what in _lacking(sighting, handoff):
        raise HandoffInvalid(field, f"{what} is missing", _ALL)
    if sighting.binding is not None:
        refuse_odd(sighting.binding, f"{field}.binding")
        _refuse_unmeant(sighting.binding, handoff, f"{field}.binding")
        was = handoff.binding or UNBOUND
        for path in sighting.binding.files:
            if path not in was.files and not any(path == each or _is_below(path, each) for each in was.folders):
                raise _other(f"{field}.binding.files[{path!r:.200}]")
        _refuse_odd_renames(sighting, was, field)


def _refuse_odd_renames(sighting: Sighting, was: Binding, field: str) -> None:
    for path, places in sighting.renamed.items():
        if path not in was.files or not 0 < len(places) <= PLACES:
            raise _other(f"{field}.renamed[{path!r:.200}]")
        for place in places:
            _refuse_odd_path(f"{field}.renamed[{path!r:.200}]", place)


def _lacking(sighting: Sighting, handoff: Handoff) -> Iterator[str]:
    bound, seen = handoff.binding, sighting.binding
    if seen is None:
        yield "binding"
        return
    if bound is not None:
        yield from sorted({*bound.files} - {*seen.files})
        yield from sorted({*bound.environment} - {*seen.environment})
    for name, form in handoff.musts:
        if rule_of_must(name, form, bound) is not None and must_key(name, form) not in sighting.musts:
            yield f"{name} {must_key(name, form)}"


# -- a server ----------------------------------------------------------------------------------------


NOWHERE = Path("/nowhere")  # stands for the root where nobody looks


class RequestObserver(Struct, frozen=True):
    """What a request carries, and nothing else.

    `asks`: who sent it can look, and is told at what (LookFirst) instead of going unobserved.
    """

    binding: Binding | None = None
    ran: tuple[Ran, ...] | None = None  # of the checks of what is stored
    sightings: Mapping[str, Sighting] = field(default_factory=dict)  # by the handoff they are of
    asks: bool = False

    looks = False

    def root(self, caller: Caller, given: str | None) -> Path:
        return NOWHERE

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        sighting = self._of(handoff)
        return Path(sighting.root) if sighting is not None and sighting.root else None

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        sighting = self._of(handoff)
        return sighting.here if sighting is not None and not sighting.root else ""

    def _of(self, handoff: Handoff) -> Sighting | None:
        """What was seen of this very revision. Raises LookFirst when that can still be done, HandoffInvalid."""
        found = self.sightings.get(handoff.id)
        if self.asks and (found is None or lacks(found, handoff)):
            raise look_first("files", handoff)
        if found is not None:
            check_sighting(found, handoff)
        return found

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        if handoff.id in self.sightings:
            return LOCAL.not_here(handoff)
        return RunsOnHost("run checks", "run them where the files are, and send what came of them: observed=[…]")

    def bind(
        self, caller: Caller, contract: Contract, root: Path, keeper: ContentKeeper | None = None
    ) -> Binding | None:
        if self.binding is not None:
            return checked_binding(caller, self.binding, contract)
        if self.asks:
            raise LookFirst("binding", contract.anchor)
        return None

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        sighting = self.sightings[handoff.id]
        kept = {must_key("must_keep", form) for form in handoff.must_keep}
        musts = {key: wrong for key, wrong in sighting.musts.items() if key in kept}
        nothing = Binding(root=text(str(root)), host="")
        return Observed(sighting.binding or nothing, sighting.relation, musts, renamed=sighting.renamed)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        sighting = self._of(handoff)
        return "was not looked at" if sighting is None else sighting.musts.get(must_key(*must), "was not looked at")

    def run_checks(
        self,
        executor: Executor,
        about: Contract,
        root: Path,
        *,
        leave: Leave,
        when: When,
        by: str,
        between: Between = None,
    ) -> list[Evidence]:
        stored = about if isinstance(about, Handoff) else None
        sighting = self.sightings.get(stored.id) if stored else None
        ran, seen = (sighting.ran, sighting.binding) if sighting else (self.ran, self.binding)
        if ran is None:
            raise self._unrun(about, stored)
        where = seen.host if seen else ""
        return evidence_of(executor.caller, ran, about, when=when, by=by, where=where)

    def _unrun(self, about: Contract, stored: Handoff | None) -> LookFirst | RunsOnHost:
        if self.asks:
            return look_first("checks", stored) if stored else LookFirst("checks", about.anchor)
        field_name = "observed=[…]" if stored else "ran=[…], or baseline=[…]"
        return RunsOnHost("run checks", f"run them where the files are, and send what came of them: {field_name}")


FileObserver = LocalObserver | RequestObserver  # what is asked about files, and who answers
NOBODY = RequestObserver()


def look_first(what: Literal["files", "checks"], handoff: Handoff) -> LookFirst:
    """The error that tells who can look at what: all of the handoff but its packets."""
    bare = replace(handoff, execution_state_v1=None, execution_packet_v1=None)
    told: dict[str, Any] = decode(encode_handoff(bare))
    return LookFirst(what, handoff.anchor, told)
