"""What became of a handoff's work: how the files differ from what was kept, and how two revisions differ.

Bringing the work to another clone is `carry.py`; what was done to each file there is told by the values here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import IntegrityBroken
from outlast.files.patch import unified
from outlast.files.snapshot import ABSENT, UNBOUND, Binding, Bound, sight
from outlast.handoffs.handoff import Contract, Handoff, label_of
from outlast.handoffs.observer import observe
from outlast.handoffs.verdict import command
from outlast.values.codec import decode, encode, path_of, text
from outlast.values.text import visible

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.store.contract.blobs import Blobs

FileChange = Literal["changed", "created", "removed", "kind"]  # kind: the content may be the same, what it is is not
Action = Literal["same", "write", "remove", "merge", "keep", "conflict left", "conflict", "not kept"]

NOT_KEPT = {
    "too_large": "too large",
    "over_budget": "it would have been more than is kept of one handoff",
    "secret": "it has a secret in it, or is named like a file that has",
    "unreadable": "it could not be read",
    "special": "it is no plain file",
}
_PACKETS = ("execution_state_v1", "execution_packet_v1")
SHOWN = 64_000  # characters of all hunks; what is longer is a matter for `outlast handoff diff`


def why_not_kept(bound: Bound) -> str:
    """Why the content of a bound file is not there, in words."""
    return f"the content was not kept: {_why(bound)}"


def not_kept(binding: Binding | None, most: int = 5) -> str:
    """The bound files whose content is not kept, and why: how many, and so many of them by name; "" without any."""
    files = binding.files.items() if binding else ()
    found = [f"{name_of(path)} ({_why(bound)})" for path, bound in files if bound.mode != "absent" and not bound.kept]
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return f"{len(found)}: {', '.join(found[:most] + more)}" if found else ""


def _why(bound: Bound) -> str:
    return NOT_KEPT.get(bound.why, bound.why or "nobody asked for it")


# -- values ------------------------------------------------------------------------------------------


class FileDiff(Struct, frozen=True):
    """One file that is not as it was."""

    path: str
    change: FileChange
    before: str  # in words: what it is and a digest, or `absent`
    after: str
    text: str = ""  # unified hunks, where both sides are text
    note: str = ""  # why there are none
    environment: bool = False  # a declared file of the environment, no target


class FieldDiff(Struct, frozen=True):
    """One field that is not as it was: by values, by what a list gained and lost, or by the keys of a packet."""

    field: str
    before: Any = None
    after: Any = None
    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()
    changed: tuple[str, ...] = ()  # keys with another value
    text: str = ""  # unified hunks of a text


class Difference(Struct, frozen=True, kw_only=True):
    """What differs between a handoff as it was stored and the files now, or between two revisions."""

    anchor: str
    before: str  # what is compared, in words
    after: str
    files: tuple[FileDiff, ...] = ()
    fields: tuple[FieldDiff, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.files and not self.fields

    def as_text(self) -> str:
        """All of it for people. Control characters are written out, so that no content can play with a terminal."""
        head = f"{name_of(self.anchor)}: {self.before} against {self.after}"
        parts = [f"{head}: nothing changed" if self.same else head]
        parts += [line for field in self.fields for line in _field_lines(field)]
        parts += [line for file in self.files for line in _file_lines(file)]
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join(printable(part) for part in parts) + "\n"


class PlacedFile(Struct, frozen=True):
    """What happens, or happened, to one file."""

    path: str
    action: Action
    why: str = ""  # of a conflict, a merge, what is kept as it is here, or content that was not kept
    patched: bool = False  # no target: its uncommitted changes came in the patch

    @property
    def line(self) -> str:
        """The file on one line."""
        return f"{self.action}: {name_of(self.path)}" + (f" ({self.why})" if self.why else "")


class Applied(Struct, frozen=True, kw_only=True):
    """How the work of a handoff was brought into a clone; a plan while it is not `done`."""

    anchor: str
    revision: int
    root: str
    files: tuple[PlacedFile, ...] = ()
    notes: tuple[str, ...] = ()
    done: bool = False

    @property
    def hindrances(self) -> tuple[PlacedFile, ...]:
        """The files for which nothing can be applied."""
        return tuple(file for file in self.files if file.action in ("conflict", "not kept"))

    @property
    def conflicts_left(self) -> tuple[PlacedFile, ...]:
        """The files with conflicts in them, for somebody to solve."""
        return tuple(file for file in self.files if file.action == "conflict left")

    @property
    def patch_files(self) -> tuple[str, ...]:
        """The files whose changes came in the patch."""
        return tuple(file.path for file in self.files if file.patched)

    def as_text(self) -> str:
        """All of it for people: what is the same already is counted, all else by name."""
        differing = [file for file in self.files if file.action != "same"]
        to_do = any(file.action != "keep" for file in differing)
        parts = [f"{name_of(self.anchor)} revision {self.revision} in {self.root}: {self._state(to_do)}"]
        parts += [file.line for file in differing]
        if same := len(self.files) - len(differing):
            parts.append(f"the same already: {same} {'file' if same == 1 else 'files'}")
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join(printable(part) for part in parts) + "\n"

    def _state(self, differs: bool) -> str:
        if not differs:
            return "nothing to do"
        return "applied" if self.done else "not possible" if self.hindrances else "planned, nothing touched"


# -- files -------------------------------------------------------------------------------------------


def change_of(before: Bound, after: Bound) -> FileChange:
    """What became of a file that is not the same."""
    if before.mode == "absent":
        return "created"
    if after.mode == "absent":
        return "removed"
    return "changed" if before.mode == after.mode else "kind"


def file_diff(
    path: str, before: Bound, after: Bound, old: bytes | str, new: bytes | str, *, environment: bool = False
) -> FileDiff:
    """One file that is not the same, by its content before and after or, where there is none, why."""
    text, note = _hunks(path, before, after, old, new)
    return FileDiff(path, change_of(before, after), before.word, after.word, text, note, environment)


def _hunks(path: str, before: Bound, after: Bound, old: bytes | str, new: bytes | str) -> tuple[str, str]:
    for content in (old, new):
        if isinstance(content, str):
            return "", content
    texts = _as_text(old), _as_text(new)
    if texts[0] is None or texts[1] is None:
        return "", f"no text: {_size(before)} before, {_size(after)} after"
    return unified(texts[0], texts[1], name_of(path), name_of(path)), ""


def _as_text(content: bytes | str) -> str | None:
    if isinstance(content, str) or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _size(bound: Bound) -> str:
    return "absent" if bound.mode == "absent" else f"{bound.size} bytes"


# -- fields ------------------------------------------------------------------------------------------


def field_diffs(before: Handoff, after: Handoff) -> tuple[FieldDiff, ...]:
    """Which fields of the contract, and which facts about the repository and the score, differ."""
    names = list(Contract.__struct_fields__)
    found = [_field_diff(name, getattr(before, name), getattr(after, name)) for name in names]
    old, new = before.binding or UNBOUND, after.binding or UNBOUND
    found += [_field_diff(name, getattr(old, name), getattr(new, name)) for name in ("commit", "branch")]
    found += [_other_files(old, new), _field_diff("score", before.lint.score, after.lint.score)]
    return tuple(diff for diff in found if diff)


def _other_files(old: Binding, new: Binding) -> FieldDiff | None:
    """The other uncommitted files: names where they differ, else that they did."""
    if old.dirty == new.dirty:
        return None
    return _field_diff("dirty_files", old.dirty_files, new.dirty_files) or FieldDiff("dirty_files")


def _field_diff(name: str, before: Any, after: Any) -> FieldDiff | None:
    if name in _PACKETS:
        return _packet_diff(name, before, after)
    if before == after:
        return None
    if isinstance(before, tuple) and isinstance(after, tuple):
        return FieldDiff(name, added=_beyond(after, before), removed=_beyond(before, after))
    text = unified(before, after, name, name) if isinstance(before, str) and isinstance(after, str) else ""
    return FieldDiff(name, before, after, text=text)


def _beyond(these: Sequence[Any], those: Sequence[Any]) -> tuple[Any, ...]:
    """What is here more often than there, in order."""
    left, found = [encode(each) for each in those], []
    for each in these:
        if (known := encode(each)) in left:
            left.remove(known)
        else:
            found.append(each)
    return tuple(found)


def _packet_diff(name: str, before: Any, after: Any) -> FieldDiff | None:
    if before == after:  # bytes: a packet is kept as it came
        return None
    old, new = _packet(before), _packet(after)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return FieldDiff(name)
    changed = tuple(key for key in old if key in new and encode(old[key]) != encode(new[key]))
    added, removed = tuple(key for key in new if key not in old), tuple(key for key in old if key not in new)
    return FieldDiff(name, added=added, removed=removed, changed=changed)


def _packet(raw: Any) -> Any:
    return {} if raw is None else decode(bytes(raw))


# -- in words ----------------------------------------------------------------------------------------


def name_of(path: str) -> str:
    """A path on one line."""
    return path if path.isprintable() else repr(path)


def printable(text: str) -> str:
    """The text with control and direction characters written out; line ends and tabs stay."""
    return visible(text, keep="\n\t")


def file_text(file: FileDiff) -> str:
    """One file that is not as it was, for people."""
    return printable("\n".join(_file_lines(file)))


def _file_lines(file: FileDiff) -> Iterator[str]:
    of = " of the environment" if file.environment else ""
    yield f"{file.change}{of}: {name_of(file.path)} ({file.before} -> {file.after})"
    if file.note:
        yield f"  {file.note}"
    if file.text:
        yield file.text.removesuffix("\n")


def _field_lines(field: FieldDiff) -> Iterator[str]:
    listed = [("+", each) for each in field.added] + [("-", each) for each in field.removed]
    listed += [("~", each) for each in field.changed]
    if field.text:
        yield f"{field.field}:"
        yield field.text.removesuffix("\n")
    elif listed:
        yield f"{field.field}:"
        yield from (f"  {mark} {label_of(each) if isinstance(each, str | dict) else each}" for mark, each in listed)
    elif field.before is None and field.after is None:
        yield f"{field.field}: changed"
    else:
        yield f"{field.field}: {_word(field.before)} -> {_word(field.after)}"


def _word(value: Any) -> str:
    return "none" if value in (None, "") else str(value)


def edits(home: Home, handoff: Handoff, root: str, now: Binding, paths: Collection[str]) -> str:
    """How these files differ, each whole or named with the command that shows it. No content can play with a terminal.

    A file of which there is nothing to compare says why.
    """
    room, parts = SHOWN, []
    for each in differing(home, handoff, Path(root), now, paths):
        text = file_text(each)
        if len(text) > room:
            text = file_text(replace(each, text="", note=f"too long to be shown here: {command(handoff, 'diff')}"))
        room -= len(text)
        parts.append(text)
    return "\n".join(parts)


# -- between files, and between revisions ------------------------------------------------------------


def diff(home: Home, handoff: Handoff, root: Path) -> Difference:
    """What changed in the files since the handoff was stored: kept content against the files below a folder now."""
    root = Path(os.path.realpath(root))
    before, after = f"revision {handoff.revision}", f"the files in {text(str(root))}"
    if handoff.binding is None:
        note = "nobody looked at the files when it was stored: there is nothing to compare"
        return Difference(anchor=handoff.anchor, before=before, after=after, notes=(note,))
    seen = observe(handoff, root)
    files = differing(home, handoff, root, seen.binding)
    moved = sorted(seen.renamed.items())
    notes = tuple(f"the same content as {old!r} had is at {names_in_words(new)}" for old, new in moved)
    return Difference(anchor=handoff.anchor, before=before, after=after, files=files, notes=notes)


def differing(
    home: Home, handoff: Handoff, root: Path, now: Binding, paths: Collection[str] | None = None
) -> tuple[FileDiff, ...]:
    """How the bound files, or those of them that are named, differ from what was found of them below a folder."""
    was = handoff.binding or UNBOUND
    found = [*_differing(was.files, now.files, False), *_differing(was.environment, now.environment, True)]
    wanted = [each for each in found if paths is None or (each[0] in paths and not each[3])]
    return tuple(_file_now(home.blobs, root, *each) for each in wanted)


_Pair = tuple[str, Bound, Bound, bool]


def _differing(before: Mapping[str, Bound], after: Mapping[str, Bound], environment: bool) -> Iterator[_Pair]:
    """The files that are not the same on both sides, whatever their line ends are."""
    for path in sorted({*before, *after}):
        was, now = before.get(path, ABSENT), after.get(path, ABSENT)
        if not was.same(now):
            yield path, was, now, environment


def _file_now(blobs: Blobs, root: Path, path: str, was: Bound, now: Bound, environment: bool) -> FileDiff:
    seen = sight(root, path_of(path))
    new: bytes | str = seen.content if seen.content is not None else _unseen(seen.bound)
    return file_diff(path, was, now, _kept(blobs, was), new, environment=environment)


def _unseen(now: Bound) -> bytes | str:
    if now.mode == "absent":
        return b""
    return f"what is there now is not shown: {now.why or f'it has {now.size} bytes'}"


def _kept(blobs: Blobs, bound: Bound) -> bytes | str:
    if bound.mode == "absent":
        return b""
    if not bound.kept:
        return why_not_kept(bound)
    try:
        return blobs.get(bound.kept)
    except IntegrityBroken as broken:
        return f"the kept content cannot be shown: {broken}"


def diff_revisions(home: Home, before: Handoff, after: Handoff) -> Difference:
    """What changed between two revisions: fields, the commit, branch and score, and the files by their kept content."""
    old, new = before.binding or UNBOUND, after.binding or UNBOUND
    found = [*_differing(old.files, new.files, False), *_differing(old.environment, new.environment, True)]
    files = [
        file_diff(path, was, now, _kept(home.blobs, was), _kept(home.blobs, now), environment=environment)
        for path, was, now, environment in found
    ]
    is_same = (before.scope, before.anchor) == (after.scope, after.anchor)
    return Difference(
        anchor=after.anchor,
        before=f"revision {before.revision}" + ("" if is_same else f" of {before.anchor} in {before.scope}"),
        after=f"revision {after.revision}",
        files=tuple(files),
        fields=field_diffs(before, after),
    )


def names_in_words(paths: Sequence[str]) -> str:
    """Paths in a sentence."""
    return ", ".join(repr(path) for path in paths)
