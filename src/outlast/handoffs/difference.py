"""What became of a handoff's work: how files and revisions differ, and what was done to bring it to another clone.

Frozen values and pure rules. Looking at files, reading what was kept and putting it in place is `handoffs/carry.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Literal

from outlast.files.diff import unified
from outlast.handoffs.handoff import Binding, Bound, Contract, Handoff
from outlast.handoffs.verdict import label_of
from outlast.values.codec import decode, encode
from outlast.values.frozen import dataclass
from outlast.values.text import visible

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


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file that is not as it was."""

    path: str
    change: FileChange
    before: str  # in words: what it is and a digest, or `absent`
    after: str
    text: str = ""  # unified hunks, where both sides are text
    note: str = ""  # why there are none
    environment: bool = False  # a declared file of the environment, no target


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One field that is not as it was: by values, by what a list gained and lost, or by the keys of a packet."""

    field: str
    before: Any = None
    after: Any = None
    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()
    changed: tuple[str, ...] = ()  # keys with another value
    text: str = ""  # unified hunks of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between a handoff as it was stored and the files now, or between two revisions."""

    anchor: str
    before: str  # what is compared, in words
    after: str
    files: tuple[FileDiff, ...] = ()
    fields: tuple[FieldDiff, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.files and not self.fields

    def as_text(self) -> str:
        """All of it for people. Control characters are written out, so that no content can play with a terminal."""
        head = f"{name_of(self.anchor)}: {self.before} against {self.after}"
        parts = [f"{head}: nothing changed" if self.same else head]
        parts += [line for field in self.fields for line in _field_lines(field)]
        parts += [line for file in self.files for line in _file_lines(file)]
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join(printable(part) for part in parts) + "\n"


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """What happens, or happened, to one file."""

    path: str
    action: Action
    why: str = ""  # of a conflict, a merge, what is kept as it is here, or content that was not kept
    patched: bool = False  # no target: its uncommitted changes came in the patch

    @property
    def line(self) -> str:
        """The file on one line."""
        return f"{self.action}: {name_of(self.path)}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
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
    names = [field.name for field in fields(Contract)]
    found = [_field_diff(name, getattr(before, name), getattr(after, name)) for name in names]
    old, new = before.binding or _NOWHERE, after.binding or _NOWHERE
    found += [_field_diff(name, getattr(old, name), getattr(new, name)) for name in ("commit", "branch")]
    found += [_other_files(old, new), _field_diff("score", before.lint.score, after.lint.score)]
    return tuple(diff for diff in found if diff)


_NOWHERE = Binding(root="", host="")


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
