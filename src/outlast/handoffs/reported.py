"""What a request says of files, checked: only what the handoff names, and only content that is here.

What somebody saw of a handoff's files where they are, told to one who does not look: a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath
from typing import TYPE_CHECKING

from outlast.errors import HandoffInvalid, IntegrityBroken
from outlast.files.changes import path_of, text
from outlast.files.patterns import Patterns, never
from outlast.handoffs.checks import refuse_impossible
from outlast.handoffs.forms import rule_of
from outlast.handoffs.handoff import Binding, Bound, Contract, Evidence, Form, Handoff, key_of, must_key
from outlast.handoffs.musts import pattern_of, rule_of_must
from outlast.handoffs.verdict import Relation
from outlast.secrets import find as secrets
from outlast.secrets.find import find

if TYPE_CHECKING:
    from outlast.handoffs.observer import When
    from outlast.home.caller import Caller
    from outlast.home.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one check that was run where the files are."""

    check: Form
    passed: bool
    exit: int | None = None
    seconds: float = 0.0
    output: str = ""  # the blob that holds what it printed
    note: str = ""
    host: str = ""  # where it was run


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How the files of one handoff were found. An empty root: they were looked for, and are not `here`."""

    handoff_id: str
    root: str = ""
    here: str = ""
    binding: Binding | None = None
    relation: Relation = "none"
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of bound files that are gone: where now
    musts: Mapping[str, str] = field(default_factory=dict)  # of every rule about a file, by key: "" or what is wrong
    ran: tuple[Ran, ...] | None = None  # None: no check was run


LONGEST = 4096  # characters of a path
NOTE = 10_000  # characters
FILES = 20_000
MARKS = 100  # of what a repository is known by
PLACES = 5  # of one file that was renamed
_DIGEST = re.compile(r"[0-9a-f]{64}")
_GIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ALL = "send what was found of each of them, or look again"


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


def _refuse_missing(found: object, wanted: set[str], field: str) -> None:
    assert isinstance(found, dict | set)
    if lacking := sorted(wanted - set(found)):
        raise HandoffInvalid(field, f"{lacking[0]!r} is missing", _ALL)


def _refuse_others(found: object, wanted: set[str], field: str) -> None:
    assert isinstance(found, dict | tuple)
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
    for name, said, form in (("commit", bound.commit, _GIT_ID), ("dirty", bound.dirty, _DIGEST)):
        if said and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send what git says, or leave it out")
    if bound.patch and not _DIGEST.fullmatch(bound.patch):
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
    for name, form in (("digest", _DIGEST), ("blob", _GIT_ID)):
        if (said := getattr(bound, name)) and not form.fullmatch(said):
            raise HandoffInvalid(f"{field}.{name}", "it is no digest", "send the digest in lower-case hex")
    if bound.size < 0 or max(len(bound.why), len(bound.leads)) > 2 * LONGEST:
        raise HandoffInvalid(field, "its size, why or leads cannot be", "send what was found")


def _refuse_odd_path(field: str, path: str) -> None:
    real = path_of(path)
    parts = real.split("/")
    wrong = not real or len(real) > LONGEST or real.startswith("/") or "\0" in real
    if wrong or ".." in parts or any(map(never, parts)):
        raise HandoffInvalid(field, "it is no path inside the root", "name files from the root, without `..`")


def _without_own_secrets(home: Home, bound: Binding) -> Binding:
    """Content in which a rule of this home's own finds a secret is not kept: who sent it did not know the rule."""
    if not home.secrets.own:
        return bound
    files = {path: _kept_if_clean(home, each) for path, each in bound.files.items()}
    clean = not bound.patch or _is_clean(home, bound.patch)
    return replace(
        bound, files=files, patch=bound.patch if clean else "", patch_why=bound.patch_why if clean else "secret"
    )


def _kept_if_clean(home: Home, bound: Bound) -> Bound:
    return bound if not bound.kept or _is_clean(home, bound.kept) else replace(bound, kept="", why="secret")


def _is_clean(home: Home, name: str) -> bool:
    content = home.blobs.get(name).decode("utf-8", "replace")
    return not any(True for _ in find(content, home.secrets.own))


# -- a sighting --------------------------------------------------------------------------------------


def lacks(sighting: Sighting, handoff: Handoff) -> bool:
    """Whether something of the handoff was not looked at."""
    return bool(sighting.root) and any(True for _ in _lacking(sighting, handoff))


def check(sighting: Sighting, handoff: Handoff) -> None:
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
        was = handoff.binding or Binding(root="", host="")
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


# -- checks ------------------------------------------------------------------------------------------


def evidence_of(
    caller: Caller, ran: Sequence[Ran], about: Contract, *, when: When, by: str, where: str
) -> list[Evidence]:
    """What came of each check, as who ran it says: each of them, in order. Raises HandoffInvalid, SecretFound."""
    by_key = {key_of(each.check): each for each in ran}
    wanted = [key_of(form) for form in about.acceptance_checks]
    if len(by_key) != len(ran) or {*by_key} != {*wanted}:
        why = f"they are not the {len(wanted)} checks of the handoff, each once"
        raise HandoffInvalid("ran", why, "send what came of each of its acceptance_checks")
    return [_evidence(caller, by_key[key], when, by, where) for key in wanted]


def _evidence(caller: Caller, ran: Ran, when: When, by: str, where: str) -> Evidence:
    secrets.check(ran.note, "ran.note", caller.home.secrets.rules)
    said = {name: getattr(ran, name) for name in ("passed", "exit", "seconds", "note")}
    refuse_impossible(ran.check, said, "ran")
    for name, words, most in (("note", ran.note, NOTE), ("host", ran.host, LONGEST)):
        if len(words) > most:
            raise HandoffInvalid(f"ran.{name}", f"it has more than {most:,} characters", "send a shorter one")
    if not ran.host.isprintable():
        raise HandoffInvalid("ran.host", "it has characters that cannot be printed", "send the name of the host")
    if ran.output and not (_DIGEST.fullmatch(ran.output) and _is_here(caller, ran.output)):
        remedy = f"send it first: PUT /v1/handoff/blobs/{ran.output[:64]}"
        raise HandoffInvalid("ran.output", f"the content {ran.output[:12]}… is not here", remedy)
    return Evidence(
        check=ran.check,
        passed=ran.passed,
        at=caller.home.clock.now(),
        by=by,
        where=ran.host or where,
        runner="client" if _is_shown(ran) else "self",
        when=when,
        exit=ran.exit,
        seconds=ran.seconds,
        output=ran.output,
        note=ran.note,
    )


def _is_shown(ran: Ran) -> bool:
    """Whether it says what a run has: its exit code, or that it had none, which passes only a rule about a file."""
    return ran.exit is not None or rule_of(ran.check) is not None or bool(ran.note and not ran.passed)


def _is_here(caller: Caller, name: str) -> bool:
    try:
        return caller.has_content(name) and caller.home.blobs.renew(name)
    except IntegrityBroken:
        return False
