"""What requests say of files: what a caller found where they are. A server looks at none itself."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from outlast.errors import RequestInvalid
from outlast.handoffs.evidence import Ran
from outlast.handoffs.handoff import Binding, BoundMode, Form
from outlast.handoffs.sighting import NOBODY as NOBODY
from outlast.handoffs.sighting import FileObserver as FileObserver
from outlast.handoffs.sighting import RequestObserver, Sighting
from outlast.handoffs.verdict import Relation
from outlast.operations import fields as f
from outlast.operations.fields import about
from outlast.operations.operation import Declared, Request

Sha256 = Annotated[str, about("The SHA-256 of the content, in hex; empty where there is none.")]
BlobName = Annotated[str, about("The digest of content that was sent before, with PUT /v1/handoff/blobs/{digest}.")]


class FoundFile(Declared):
    """One file as it was found."""

    mode: Annotated[BoundMode, about("What is there: a file, a program, a link, nothing, or something else.")]
    digest: Sha256 = ""
    blob: Annotated[str, about("Its id as git has it, if it is in a repository.")] = ""
    size: Annotated[int, about("Its bytes.")] = 0
    kept: BlobName = ""
    why: Annotated[str, about("Why its content is not kept.")] = ""
    leads: Annotated[str, about("Of a link: where it leads.")] = ""


class FoundFiles(Declared):
    """The files of a handoff and their repository, as they were found."""

    root: Annotated[str, about("The folder that paths are relative to.")]
    host: Annotated[str, about("The machine that it is on.")]
    files: Annotated[dict[str, FoundFile], about("The target files, by path.")] = f.EMPTY
    folders: Annotated[f.Words, about("Targets that are folders.")] = ()
    environment: Annotated[dict[str, FoundFile], about("The files of `environment`, by path.")] = f.EMPTY
    musts: Annotated[dict[str, FoundFile], about("The files that musts name, by path.")] = f.EMPTY
    commit: Annotated[str, about("The commit that is checked out.")] = ""
    branch: Annotated[str, about("The branch that is checked out.")] = ""
    dirty: Annotated[str, about("The digest of what differs from the commit; empty: nothing does.")] = ""
    dirty_files: Annotated[f.Words, about("The files that differ from the commit.")] = ()
    untracked: Annotated[f.Words, about("The files that git does not know.")] = ()
    patch: BlobName = ""
    patch_why: Annotated[str, about("Why there is no patch.")] = ""
    prefix: Annotated[str, about("The folder inside the repository, if it is not its top.")] = ""
    known_by: Annotated[f.Words, about("What tells the repository: root commits, and remote URLs.")] = ()
    unkept: Annotated[dict[str, str], about("Files whose content is not kept, and why.")] = f.EMPTY


class RanCheck(Declared):
    """What came of one check."""

    check: Annotated[Form, about("The check, as the handoff says it.")]
    passed: Annotated[bool, about("Whether it passed.")]
    exit: Annotated[int | None, about("The exit code of its command.")] = None
    seconds: Annotated[float, about("How long it took.")] = 0.0
    output: BlobName = ""
    note: Annotated[str, about("What is to be said of it.")] = ""
    host: Annotated[str, about("The machine that it ran on.")] = ""


class Observation(Declared):
    """What was found of the files of one handoff; without a root: they are not `here`."""

    handoff_id: Annotated[str, about("Of which revision; of another one it counts for nothing.")]
    root: Annotated[str, about("Where its files are; empty: they are not here.")] = ""
    here: Annotated[str, about("Which place it is, where they are not.")] = ""
    binding: Annotated[FoundFiles | None, about("The files that it is bound to, as they are now.")] = None
    relation: Annotated[Relation, about("How the commit now is to the bound one.")] = "none"
    musts: Annotated[dict[str, str], about("What is wrong with each must that is looked at; empty: nothing.")] = f.EMPTY
    renamed: Annotated[dict[str, f.Words], about("Where files that are gone may have gone to.")] = f.EMPTY
    ran: Annotated[tuple[RanCheck, ...] | None, about("What came of each check that was run.")] = None


class ObservedFiles(Request):
    """Base of requests about the files of a handoff."""

    observed: Annotated[
        tuple[Observation, ...],
        about("What was found of a handoff's files, where they are. Of another revision it counts for nothing."),
    ] = ()
    looks: f.Looks = False


class BoundFiles(Request):
    """Base of requests that bind files."""

    binding: Annotated[
        FoundFiles | None,
        about("What the files are now, as they were found where they are; blobs that it names were sent before."),
    ] = None
    ran: Annotated[
        tuple[RanCheck, ...] | None,
        about("What came of each check, run where the files are; recorded with the key's actor and the host."),
    ] = None
    looks: f.Looks = False


# How a client in another language looks, stores and recovers, in a repository, by what every system has.
STORE_BY_CURL = """\
f=src/routes/export.ts
look() {
  dirty=$(git diff HEAD)
  [ -z "$dirty" ] || dirty=$(printf %s "$dirty" | sha256sum | cut -c-64)
  printf '{"root": "%s", "host": "%s", "commit": "%s", "branch": "%s", "dirty": "%s", ' \\
    "$PWD" "$(uname -n)" "$(git rev-parse HEAD)" "$(git branch --show-current)" "$dirty"
  printf '"files": {"%s": {"mode": "file", "digest": "%s", "blob": "%s", "size": %s}}}' \\
    "$f" "$(sha256sum < "$f" | cut -c-64)" "$(git hash-object "$f")" "$(wc -c < "$f")"
}
id=$(curl -s localhost:8787/v1/handoff/store -H 'content-type: application/json' -d '{
  "anchor": "task:export-repair", "summary": "Pause after diagnosis", "handoff_text": "Patch the serializer.",
  "target_files": ["'"$f"'"], "binding": '"$(look)"'}' | grep -o '"id":"[^"]*"' | cut -d '"' -f 4)
"""
RECOVER_BY_CURL = """\
curl -s localhost:8787/v1/handoff/recover -H 'content-type: application/json' -d '{
  "anchor": "task:export-repair", "observed": [{"handoff_id": "'"$id"'", "root": "'"$PWD"'", "relation": "same",
  "binding": '"$(look)"'}]}'
"""
SEEN = ("binding", "ran", "observed", "looks")  # what was found of files, beside what is asked


def observer_in(request: Any) -> FileObserver:
    """What a request knows of files. Raises RequestInvalid."""
    if hasattr(request, "observed"):
        sightings = {each.handoff_id: _as(each, Sighting) for each in request.observed}
        if len(sightings) != len(request.observed):
            raise RequestInvalid("observed", "a handoff is there twice")
        return RequestObserver(sightings=sightings, asks=request.looks)
    if hasattr(request, "binding"):
        binding = None if request.binding is None else _as(request.binding, Binding)
        ran = None if request.ran is None else tuple(_as(each, Ran) for each in request.ran)
        return RequestObserver(binding=binding, ran=ran, asks=request.looks)
    return NOBODY


def _as(found: Declared, kind: type) -> Any:
    return msgspec.convert(msgspec.to_builtins(found), kind)
