"""What a patch makes of a clone's commit, without touching the clone; how two texts differ; and two merged by git.

The patch is applied to a throw-away index, and what it makes is kept in a throw-away folder: neither the work tree nor
the repository is written to. Putting the outcome in place is `place.py`. In a merge line ends do not count: a text is
merged with LF, and the outcome has those of the text that is here.

How two texts differ is told line by line, as unified hunks, and never slow, whatever the texts are. Lines that are
unique in both texts are matched first and what lies between them is compared on its own. Where that would take too long
the lines are shown as replaced whole: a longer difference, never a wrong or a shortened one.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import Match, SequenceMatcher
from functools import partial
from hashlib import sha1, sha256
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from msgspec import Struct, field

from outlast.files import ask_git, git
from outlast.files.snapshot import Bound, Sight, sight
from outlast.files.still_true import GitAnswer
from outlast.store.disk import translated
from outlast.values.frozen import NamedTuple

_MODES = {"100644": "file", "100664": "file", "100755": "exec", "120000": "link", "160000": "submodule"}
_AT_ONCE = 200  # paths in one command; each may be 4 KiB long
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d+))?$", re.MULTILINE)
_OLD_MODE = re.compile(rb"^(?:old mode|deleted file mode) (\d+)$", re.MULTILINE)
_NEW_MODE = re.compile(rb"^new (?:file )?mode (\d+)$", re.MULTILINE)


class GitEntry(NamedTuple):
    """A file as git has it: what it is, and the id of its content."""

    mode: str  # file, exec, link, submodule; absent
    id: str = ""


NOTHING = GitEntry("absent")


class Made(Struct, frozen=True):
    """One file that the patch makes, and what the commit has in its place."""

    head: GitEntry
    goal: GitEntry
    content: bytes = b""


class Patched(Struct, frozen=True):
    """What the patch comes to, by path from the top. Submodules are left out: which commit they are at is theirs."""

    made: dict[str, Made] = field(default_factory=dict)
    present: tuple[str, ...] = ()  # they are so already
    conflicts: dict[str, str] = field(default_factory=dict)  # and why


class UnreadablePatch(Exception):
    """Git makes nothing of the patch."""


class Section(NamedTuple):
    """The part of a patch that is about one file."""

    path: str
    body: bytes


# -- what is there -----------------------------------------------------------------------------------


def entries(top: Path, commit: str, paths: Sequence[str]) -> dict[str, GitEntry]:
    """What a commit has at these paths from the top; what it has not, or git cannot tell of, is left out."""
    found: dict[str, GitEntry] = {}
    if commit != "HEAD" and not git.is_commit(commit):
        return found
    for start in range(0, len(paths), _AT_ONCE):
        answer = _ask(top, "ls-tree", "-z", "--full-tree", commit, "--", *paths[start : start + _AT_ONCE])
        for line in answer.fields if answer and not answer.exit else ():
            facts, _, path = line.partition("\t")
            mode, _, name = facts.split()
            if mode in _MODES:
                found[path] = GitEntry(_MODES[mode], name)
    return found


def entry_now(top: Path, path: str, seen: Sight, like: str) -> GitEntry:
    """What was seen at a path from the top, as git would have it; its id is "" when git cannot tell. `like`: any id."""
    if seen.bound.mode == "link":
        content = seen.content or b""
        kind = sha256 if len(like) == 64 else sha1
        return GitEntry("link", kind(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest())
    if seen.bound.mode not in ("file", "exec"):
        return GitEntry(seen.bound.mode)
    answer = _ask(top, "hash-object", "--", path)  # with what git does to line ends, and other filters
    return GitEntry(seen.bound.mode, answer.out.decode().strip() if answer and not answer.exit else "")


def is_entry(top: Path, path: str, now: Bound, entry: GitEntry) -> bool:
    """Whether what was seen at a path from the top is what git has. A text tells by itself."""
    if now.mode != entry.mode:
        return False
    return now.blob == entry.id or entry_now(top, path, sight(top, path), entry.id) == entry


# -- what the patch makes ----------------------------------------------------------------------------


def sections_of(patch: bytes, left_out: Collection[str]) -> list[Section]:
    """The parts of a patch, each of one file, but for paths that are left out. Raises Unreadable.

    No line of content can begin a part: each has a mark in front, or no space in it.
    """
    bodies = re.split(rb"(?m)^(?=diff --git )", patch)[1:]
    with room() as folder:
        file = _file(folder, patch)
        answer = ask_git.ask(Path(folder), "apply", "--numstat", "-z", "--", file, alone=True)  # else paths are cut
    names = [line.split("\t", 2)[2] for line in answer.fields] if answer and not answer.exit else []
    if len(names) != len(bodies):
        raise UnreadablePatch
    found = [Section(name, body) for name, body in zip(names, bodies, strict=True)]
    return [section for section in found if section.path not in left_out]


def patched(top: Path, commit: str, sections: Sequence[Section]) -> Patched:
    """What the sections make of the commit. Raises Unreadable when git makes nothing of them."""
    heads = entries(top, commit, sorted({each.path for each in sections}))
    goals: dict[str, GitEntry] = {}
    for each in sections:  # what becomes a link is taken away first, in a section of its own
        goals[each.path] = _goal(each.body, heads.get(each.path, NOTHING))
    submodules = {path for path, goal in goals.items() if "submodule" in (goal.mode, heads.get(path, NOTHING).mode)}
    present = {path for path, goal in goals.items() if entry_now(top, path, sight(top, path), goal.id) == goal}
    todo = [each for each in sections if each.path not in submodules | present]
    made, conflicts = _applied(top, commit, todo)
    return Patched(made, tuple(sorted(present)), conflicts)


def _goal(body: bytes, head: GitEntry) -> GitEntry:
    """What one section makes of a file, by its own words."""
    lines = body.split(b"\n@@ ")[0]
    if b"\ndeleted file mode " in lines:
        return NOTHING
    index, new = _INDEX.search(lines), _NEW_MODE.search(lines)
    mode = new[1] if new else index[3] if index else None
    known = _MODES.get((mode or b"").decode(), head.mode)
    return GitEntry(known, index[2].decode() if index else head.id)


def _applied(top: Path, commit: str, sections: Sequence[Section]) -> tuple[dict[str, Made], dict[str, str]]:
    """What the sections make together, or why some of them make nothing."""
    if not sections:
        return {}, {}
    with room() as folder:
        ask = _aside(top, folder)
        if not _went_well(ask("read-tree", commit)):
            return {}, {each.path: "git cannot read the commit here" for each in sections}
        if _applies(ask, folder, sections):
            return _made(ask, commit), {}
        names = sorted({each.path for each in sections})
        bad = [name for name in names if not _applies(ask, folder, _of(sections, [name]), "--check")] or names
        good = _of(sections, {*names} - {*bad})
        made = _made(ask, commit) if good and _applies(ask, folder, good) else {}
    return made, dict.fromkeys(bad, "its uncommitted changes do not fit what the commit here has")


def sides(top: Path, section: Section) -> tuple[Made, bytes] | None:
    """What one section makes of the content that it was made for, and that content; None when it is not known here."""
    lines = section.body.split(b"\n@@ ")[0]
    index, old = _INDEX.search(lines), _OLD_MODE.search(lines)
    if index is None:
        return None
    mode = (old[1] if old else index[3] or b"100644").decode()
    with room() as folder:
        ask = _aside(top, folder)
        if index[1].strip(b"0"):
            ask("update-index", "--add", "--cacheinfo", f"{mode},{index[1].decode()},{section.path}")
        before = _staged(ask, section.path)
        if not _applies(ask, folder, [section]):
            return None
        after = _staged(ask, section.path)
        try:
            return Made(before, after, _content(ask, section.path, after)), _content(ask, section.path, before)
        except UnreadablePatch:
            return None


def _staged(ask: Callable[..., GitAnswer | None], path: str) -> GitEntry:
    answer = ask("ls-files", "-z", "--stage", "--", path)
    for line in answer.fields if answer and not answer.exit else ():
        mode, name, _ = line.partition("\t")[0].split()
        return GitEntry(_MODES.get(mode, "special"), name)
    return NOTHING


def content_of(top: Path, path: str, entry: GitEntry) -> bytes:
    """What a checkout would write at a path from the top. Raises Unreadable when git cannot tell."""
    return _content(partial(_ask, top), path, entry)


def _of(sections: Sequence[Section], paths: Collection[str]) -> list[Section]:
    return [section for section in sections if section.path in paths]


def _aside(top: Path, folder: str) -> Callable[..., GitAnswer | None]:
    """Ask git with an index, and a place for what it makes, of one's own."""
    real = _ask(top, "rev-parse", "--git-path", "objects")
    objects = os.path.join(top, os.fsdecode(real.out.removesuffix(b"\n")) if real else "")
    quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
    os.mkdir(f"{folder}/objects")
    return partial(
        _ask,
        top,
        GIT_INDEX_FILE=f"{folder}/index",
        GIT_OBJECT_DIRECTORY=f"{folder}/objects",
        GIT_ALTERNATE_OBJECT_DIRECTORIES=f'"{quoted}"',
    )


def _applies(ask: Callable[..., GitAnswer | None], folder: str, sections: Sequence[Section], *options: str) -> bool:
    file = _file(folder, b"".join(each.body for each in sections))
    plain = ("--cached", "--whitespace=nowarn", "--no-ignore-whitespace", "-p1")
    return _went_well(ask("apply", *plain, *options, "--", file))


def _made(ask: Callable[..., GitAnswer | None], commit: str) -> dict[str, Made]:
    answer = ask("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", commit)
    if not answer or answer.exit or not answer.whole:
        raise UnreadablePatch
    fields, made = iter(answer.fields), {}
    for facts, path in zip(fields, fields, strict=True):
        old_mode, mode, old, new, _ = facts.removeprefix(":").split()
        head, goal = (GitEntry(_MODES[m], i) if m in _MODES else NOTHING for m, i in ((old_mode, old), (mode, new)))
        made[path] = Made(head, goal, _content(ask, path, goal) if goal != NOTHING else b"")
    return made


def _content(ask: Callable[..., GitAnswer | None], path: str, goal: GitEntry) -> bytes:
    """What a checkout would write: with this clone's line ends."""
    if goal == NOTHING:
        return b""
    how = ("blob", goal.id) if goal.mode == "link" else ("--filters", f"--path={path}", goal.id)
    answer = ask("cat-file", *how)
    if not answer or answer.exit or not answer.whole:
        raise UnreadablePatch
    return answer.out


# -- asking ------------------------------------------------------------------------------------------


@contextmanager
def room() -> Iterator[str]:
    """A folder that is gone afterwards. What the disk refuses is said of it."""
    try:
        with TemporaryDirectory() as folder:
            yield folder
    except OSError as error:
        raise translated(error, gettempdir()) from error


def _file(folder: str, content: bytes) -> str:
    path = f"{folder}/patch"
    with open(path, "wb") as file:
        file.write(content)
    return path


def _went_well(answer: GitAnswer | None) -> bool:
    return answer is not None and not answer.exit


def _ask(top: Path, *command: str, **settings: str) -> GitAnswer | None:
    """Ask about this work tree and no other."""
    return ask_git.ask(top, *command, top=top, settings=settings)


_LABELS = ("here", "where the work began", "the handoff")
_MARK = b"<<<<<<< here\n"
_TEXT_BYTES = 8_000  # git takes for text what has no NUL in so many


class Merged(NamedTuple):
    """The outcome, and how many conflicts are left in it, between marks."""

    content: bytes
    conflicts: int = 0


def merged(base: bytes, here: bytes, work: bytes) -> Merged | None:
    """What becomes of a text that was changed here and by the work; None when one is no text, or there is no git."""
    if any(b"\0" in content[:_TEXT_BYTES] for content in (base, here, work)):
        return None
    sides = dict(zip(("here", "base", "work"), map(_with_lf, (here, base, work)), strict=True))
    with room() as folder:
        for name, content in sides.items():
            Path(folder, name).write_bytes(content)
        labels = [word for label in _LABELS for word in ("-L", label)]
        answer = ask_git.ask(Path(folder), "merge-file", "-p", "-q", "--diff3", *labels, *sides, alone=True)
    if answer is None or not answer.whole or answer.exit > 127:  # as many conflicts; more is an error
        return None
    return Merged(with_ends_of(here, answer.out), answer.exit)


def may_hold(base: bytes, here: bytes, work: bytes) -> bool:
    """Whether a text may be the outcome of such a merge: undone and merged again it is what it is.

    To merge the work into it a second time would then double what the work added, where lines are there more than once.
    """
    without = merged(work, here, base)
    if without is None or without.conflicts or without.content == here:
        return False
    return merged(base, without.content, work) == Merged(here)


def has_marks(content: bytes) -> bool:
    """Whether an earlier merge left conflicts in it that nobody has solved."""
    return any(line == _MARK for line in _with_lf(content).splitlines(keepends=True))


def with_ends_of(here: bytes, content: bytes) -> bytes:
    """The content with the line ends that are used here, where both use only one kind."""
    if _ends(here) == "CRLF" and _ends(content) == "LF":
        return content.replace(b"\n", b"\r\n")
    if _ends(here) == "LF" and _ends(content) == "CRLF":
        return content.replace(b"\r\n", b"\n")
    return content


def _with_lf(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n") if _ends(content) == "CRLF" else content


def _ends(content: bytes) -> str:
    lines, pairs = content.count(b"\n"), content.count(b"\r\n")
    return "" if not lines else "LF" if not pairs else "CRLF" if pairs == lines else "mixed"


# -- the difference of two texts ---------------------------------------------------------------------

CONTEXT_LINES = 3
_WORK = 4_000_000  # comparisons, about a second
_UNENDED = "\\ No newline at end of file\n"


class _Span(NamedTuple):
    """Lines of both texts that are to be compared with each other."""

    old: int
    old_end: int
    new: int
    new_end: int


def unified(before: str, after: str, was: str, now: str) -> str:
    """The hunks that make `before` into `after`, under the two names; "" when only line ends differ."""
    old, new = _lines(before), _lines(after)
    hunks = list(_Matched(old, new).get_grouped_opcodes(CONTEXT_LINES))
    parts = [part for hunk in hunks for part in _hunk(hunk, old, new)]
    return "".join([f"--- {was}\n+++ {now}\n", *parts]) if parts else ""


def _lines(text: str) -> list[str]:
    """Lines with their ends, LF for CR LF. Only LF ends a line: a form feed is content."""
    lines = [f"{line}\n" for line in text.replace("\r\n", "\n").split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _hunk(hunk: Sequence[tuple[str, int, int, int, int]], old: list[str], new: list[str]) -> Iterator[str]:
    (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = hunk[0], hunk[-1]
    yield f"@@ -{_place(old_from, old_to)} +{_place(new_from, new_to)} @@\n"
    for kind, a, a_end, b, b_end in hunk:
        if kind == "equal":
            yield from (_shown(" ", line) for line in old[a:a_end])
            continue
        yield from (_shown("-", line) for line in old[a:a_end])
        yield from (_shown("+", line) for line in new[b:b_end])


def _place(start: int, end: int) -> str:
    """As `diff` counts: from one, and the line before when there is none."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _shown(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_UNENDED}"


# -- which lines belong together ---------------------------------------------------------------------


class _Matched(SequenceMatcher[str]):
    """The library's hunks on our own matches: its search takes minutes where every second line changed."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, (), ())
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[Match]:
        runs: list[Match] = []
        for old, new, size in sorted(_runs(self.old, self.new)):
            if runs and runs[-1].a + runs[-1].size == old and runs[-1].b + runs[-1].size == new:
                runs[-1] = Match(runs[-1].a, runs[-1].b, runs[-1].size + size)
            else:
                runs.append(Match(old, new, size))
        return [*runs, Match(len(self.old), len(self.new), 0)]


def _runs(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Equal runs of lines, in no order: where each begins in both, and how long it is."""
    todo, room = [_Span(0, len(old), 0, len(new))], _WORK
    while todo:
        whole = todo.pop()
        span = _trimmed(whole, old, new)
        yield from _trimmings(whole, span)
        lines_old, lines_new = old[span.old : span.old_end], new[span.new : span.new_end]
        room -= len(lines_old) + len(lines_new)
        if not lines_old or not lines_new or room < 0:
            continue
        if anchors := _anchors(lines_old, lines_new):
            todo += _between(span, anchors)
        elif (room := room - len(lines_old) * len(lines_new)) >= 0:
            found = SequenceMatcher(None, lines_old, lines_new).get_matching_blocks()
            yield from ((span.old + run.a, span.new + run.b, run.size) for run in found if run.size)


def _trimmed(span: _Span, old: list[str], new: list[str]) -> _Span:
    """The span without the lines that both begin or end with."""
    a, a_end, b, b_end = span
    while a < a_end and b < b_end and old[a] == new[b]:
        a, b = a + 1, b + 1
    while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    return _Span(a, a_end, b, b_end)


def _trimmings(whole: _Span, inner: _Span) -> Iterator[tuple[int, int, int]]:
    if inner.old > whole.old:
        yield whole.old, whole.new, inner.old - whole.old
    if inner.old_end < whole.old_end:
        yield inner.old_end, inner.new_end, whole.old_end - inner.old_end


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """The longest series of lines, each only once in both, that are in the same order in both."""
    once = {line for line, count in Counter(new).items() if count == 1}
    once &= {line for line, count in Counter(old).items() if count == 1}
    places = {line: at for at, line in enumerate(new) if line in once}
    return _rising([(at, places[line]) for at, line in enumerate(old) if line in once])


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of the pairs in which the second number rises too."""
    tails: list[int] = []  # the smallest last number of a series of each length, and which pair that is
    last: list[int] = []
    before: list[int] = []  # of each pair, the one that it follows
    for at, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        before.append(last[length - 1] if length else -1)
        tails[length : length + 1], last[length : length + 1] = [place], [at]
    series, at = [], last[-1] if last else -1
    while at >= 0:
        series.append(pairs[at])
        at = before[at]
    return series[::-1]


def _between(span: _Span, anchors: list[tuple[int, int]]) -> list[_Span]:
    """The spans before the first anchor and from each one to the next."""
    starts = [(span.old, span.new), *((span.old + a, span.new + b) for a, b in anchors)]
    stops = [*starts[1:], (span.old_end, span.new_end)]
    return [_Span(a, a_end, b, b_end) for (a, b), (a_end, b_end) in zip(starts, stops, strict=True)]
