"""What a request says of files, checked: only what the handoff names, and only content that is here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from posixpath import normpath
from typing import TYPE_CHECKING

from outlast.errors import HandoffInvalid, IntegrityBroken
from outlast.files.changes import path_of, text
from outlast.files.patterns import never
from outlast.handoffs.contract import rule_of
from outlast.handoffs.handoff import Binding, Bound, Contract, Evidence, Handoff, key_of
from outlast.handoffs.sight import Ran, Sighting

if TYPE_CHECKING:
    from outlast.handoffs.observer import When
    from outlast.home.home import Runtime

LONGEST = 4096  # characters of a path
NOTE = 10_000  # characters
FILES = 20_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_GIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ALL = "send what was found of each of them, or look again"


# -- a binding ---------------------------------------------------------------------------------------


def checked_binding(runtime: Runtime, bound: Binding, contract: Contract) -> Binding:
    """A binding as it may be stored: of the contract's files and no others, its content here. Raises HandoffInvalid."""
    targets = {text(normpath(path)) for path in (*contract.target_files, contract.file_path) if path is not None}
    environment = {text(normpath(path)) for path in contract.environment}
    refuse_odd(bound, "binding")
    _refuse_missing({*bound.files, *bound.folders}, targets, "binding.files")
    _refuse_missing(bound.environment, environment, "binding.environment")
    _refuse_others(bound.folders, targets, "binding.folders")
    _refuse_others(bound.environment, environment, "binding.environment")
    for path in bound.files:
        if path not in targets and not any(_is_below(path, folder) for folder in bound.folders):
            raise _other(f"binding.files[{path!r}]")
    for name in bound.blobs:
        if not runtime.blobs.renew(name):
            why = f"the content {name[:12]}… is not here"
            raise HandoffInvalid("binding", why, f"send it first: PUT /v1/handoff/blobs/{name}")
    return _without_own_secrets(runtime, bound)


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
    for name, files in (("files", bound.files), ("environment", bound.environment)):
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
    if bound.size < 0 or len(bound.why) > LONGEST:
        raise HandoffInvalid(field, "its size or why cannot be", "send what was found")


def _refuse_odd_path(field: str, path: str) -> None:
    real = path_of(path)
    parts = real.split("/")
    wrong = not real or len(real) > LONGEST or real.startswith("/") or "\0" in real
    if wrong or ".." in parts or any(map(never, parts)):
        raise HandoffInvalid(field, "it is no path inside the root", "name files from the root, without `..`")


def _without_own_secrets(runtime: Runtime, bound: Binding) -> Binding:
    """Content in which a rule of this home's own finds a secret is not kept: who sent it did not know the rule."""
    if not runtime.own_secrets:
        return bound
    files = {path: _kept_if_clean(runtime, each) for path, each in bound.files.items()}
    clean = not bound.patch or _is_clean(runtime, bound.patch)
    return replace(
        bound, files=files, patch=bound.patch if clean else "", patch_why=bound.patch_why if clean else "secret"
    )


def _kept_if_clean(runtime: Runtime, bound: Bound) -> Bound:
    return bound if not bound.kept or _is_clean(runtime, bound.kept) else replace(bound, kept="", why="secret")


def _is_clean(runtime: Runtime, name: str) -> bool:
    from outlast.secrets.find import find

    content = runtime.blobs.get(name).decode("utf-8", "replace")
    return not any(True for _ in find(content, runtime.own_secrets))


# -- a sighting --------------------------------------------------------------------------------------


def lacks(sighting: Sighting, handoff: Handoff) -> bool:
    """Whether something of the handoff was not looked at."""
    return bool(sighting.root) and any(True for _ in _lacking(sighting, handoff))


def check(sighting: Sighting, handoff: Handoff) -> None:
    """Raises HandoffInvalid for a sighting that is not of this handoff's files, all of them and no others."""
    if not sighting.root:
        return
    field = f"observed[{handoff.id!r}]"
    if len(sighting.root) > LONGEST:
        raise HandoffInvalid(f"{field}.root", f"it has more than {LONGEST} characters", "send a shorter one")
    for what in _lacking(sighting, handoff):
        raise HandoffInvalid(field, f"{what} is missing", _ALL)
    if sighting.binding is not None:
        refuse_odd(sighting.binding, f"{field}.binding")
        was = handoff.binding or Binding(root="", host="")
        for path in sighting.binding.files:
            if path not in was.files and not any(path == each or _is_below(path, each) for each in was.folders):
                raise _other(f"{field}.binding.files[{path!r:.200}]")


def _lacking(sighting: Sighting, handoff: Handoff) -> Iterator[str]:
    bound, seen = handoff.binding, sighting.binding
    if seen is None:
        yield "binding"
    elif bound is not None:
        yield from sorted({*bound.files} - {*seen.files})
        yield from sorted({*bound.environment} - {*seen.environment})
    for name, form in handoff.musts:
        if rule_of(form) is not None and key_of(form) not in sighting.musts:
            yield f"{name} {key_of(form)}"


# -- checks ------------------------------------------------------------------------------------------


def evidence_of(
    runtime: Runtime, ran: Sequence[Ran], about: Contract, *, when: When, by: str, where: str
) -> list[Evidence]:
    """What came of each check, as who ran it says: each of them, in order. Raises HandoffInvalid, SecretFound."""
    by_key = {key_of(each.check): each for each in ran}
    wanted = [key_of(form) for form in about.acceptance_checks]
    if len(by_key) != len(ran) or {*by_key} != {*wanted}:
        why = f"they are not the {len(wanted)} checks of the handoff, each once"
        raise HandoffInvalid("ran", why, "send what came of each of its acceptance_checks")
    return [_evidence(runtime, by_key[key], when, by, where) for key in wanted]


def _evidence(runtime: Runtime, ran: Ran, when: When, by: str, where: str) -> Evidence:
    from outlast.secrets import find as secrets

    secrets.check(ran.note, "ran.note", runtime.secret_rules)
    if len(ran.note) > NOTE or len(ran.host) > LONGEST or ran.seconds < 0:
        raise HandoffInvalid("ran", f"a note of more than {NOTE:,} characters, or less than no time", "send less")
    if ran.output and not (_DIGEST.fullmatch(ran.output) and _is_here(runtime, ran.output)):
        remedy = f"send it first: PUT /v1/handoff/blobs/{ran.output[:64]}"
        raise HandoffInvalid("ran.output", f"the content {ran.output[:12]}… is not here", remedy)
    return Evidence(
        check=ran.check,
        passed=ran.passed,
        at=runtime.clock.now(),
        by=by,
        where=ran.host or where,
        runner="runner",
        when=when,
        exit=ran.exit,
        seconds=ran.seconds,
        output=ran.output,
        note=ran.note,
    )


def _is_here(runtime: Runtime, name: str) -> bool:
    try:
        return runtime.blobs.renew(name)
    except IntegrityBroken:
        return False
