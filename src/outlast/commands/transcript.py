"""Transcripts: what a command prints, kept as it comes, with secrets masked: the flow's own, and what looks like one.

`pipe.py` reads what the command writes; here it is masked and appended to the file, so that the command never waits
for anybody. Another thread shows what is in the file, at its own pace. Memory stays bounded whatever is printed.

Of a step all is kept; of a check, which may be run often and print anything, its beginning and its end, in memory.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from outlast.commands.pipe import CHUNK_BYTES, Pipe, Terminal
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.private import open_file, open_plain, read_plain

if TYPE_CHECKING:
    import hashlib

    from outlast.secrets import stream
    from outlast.secrets.rules import SecretRule
    from outlast.store.contract.blobs import Blobs
else:
    hashlib, stream = late("hashlib"), late("outlast.secrets.stream")


T = TypeVar("T", str, bytes)

MASK = "***"


class Transcript:
    """The transcript of one attempt of a command. Raises OSError when the file cannot be opened.

    Hand `writer` to the command, then `begin()`; when the command is over, `join()`.
    """

    def __init__(
        self,
        path: Path,
        secrets: Collection[str] = (),
        sink: Callable[[bytes], None] | None = None,
        rules: Callable[[], tuple[SecretRule, ...]] = tuple,
        *,
        on_terminal: bool = False,
    ) -> None:
        self.path = path
        self.size = 0  # bytes written
        self.lost = 0  # bytes that could not be written
        self.failure: str | None = None  # why the file is incomplete
        self._known, self._rules = _KnownSecrets(secrets), rules
        self._file = open_file(path, os.O_RDWR | os.O_APPEND)
        try:
            terminal = Terminal() if on_terminal else None
            self._pipe = Pipe(self._take, self._pause, self._take_rest, terminal=terminal)
        except OSError:
            os.close(self._file)
            raise
        self._showing = _Showing(self._file, sink) if sink else None
        self._gap = False  # the last bytes were lost

    @property
    def writer(self) -> int:
        """The end of the pipe that the command writes to."""
        return self._pipe.writer

    @property
    def terminal(self) -> str:
        """The path of the terminal that the command is to run on; empty when there is none."""
        return self._pipe.terminal.path if self._pipe.terminal else ""

    @property
    def left_open(self) -> bool:
        """Whether something outside the command's group still had the pipe when we stopped reading."""
        return self._pipe.left_open

    @property
    def masked(self) -> int:
        """How many secrets were masked."""
        return self._known.count + (self._looks.count if self._looks else 0)

    @property
    def sink_failure(self) -> str | None:
        """Why the sink was given up: what it raised."""
        return self._showing.failure if self._showing else None

    @property
    def unshown(self) -> int:
        """Bytes that the sink has not been given."""
        return self.size - self._showing.shown if self._showing else 0

    @property
    def digest(self) -> str:
        """Of the whole file, when all of it was shown and nothing else is in it; else empty: it has to be read."""
        whole = self._showing is not None and self.path.stat().st_size == self._showing.shown == self.size
        return self._showing.digest if self._showing and whole else ""

    def begin(self) -> None:
        """Read from now on. Only the command has the writing end then."""
        self._pipe.begin("transcript", "reading what a command prints")
        if self._showing:
            self._showing.start()

    def join(self, timeout: float = 1.0) -> bool:
        """Everything printed is written; true when nobody can print any more.

        A pipe that something outside the group holds open is given up after `timeout` seconds (`left_open`), and a
        sink that takes nothing for so long (`unshown`).
        """
        self._pipe.finish(timeout)
        if self._showing:
            self._showing.finish(timeout)
        self.close()
        return not self.left_open

    def close(self) -> None:
        """Stop reading and give the files back, also when it never began."""
        self._pipe.close()
        if self._showing:
            self._showing.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @cached_property
    def _looks(self) -> stream.Masking | None:
        """What masks by looks: with the first that is printed, as a command begins without."""
        rules = self._rules()
        return stream.Masking(rules) if rules else None

    def _take(self, chunk: bytes) -> None:
        known = self._known.feed(chunk)
        self._keep(self._looks.feed(known) if self._looks else known)

    def _pause(self) -> None:
        self._keep(self._looks.pause() if self._looks else b"")

    def _take_rest(self) -> None:
        """What was held back: nothing more comes."""
        known = self._known.rest()
        self._keep(self._looks.feed(known) + self._looks.rest() if self._looks else known)

    def _keep(self, data: bytes) -> None:
        """Append. What does not fit on the disk is counted, and named in the file when there is room again."""
        if not data:
            return
        note = f"\n[{self.lost} bytes are missing in all: {self.failure}]\n".encode() if self._gap else b""
        unwritten = self._write(note + data)
        self.lost += min(unwritten, len(data))
        self._gap = unwritten > 0
        if self._showing:
            self._showing.more(self.size)

    def _write(self, data: bytes) -> int:
        """How many bytes at the end could not be written."""
        while data:
            try:
                written = os.write(self._file, data)
            except OSError as error:
                self.failure = str(error)
                break
            self.size += written
            data = data[written:]
        return len(data)


class _Showing:
    """Hands the file's bytes to the sink. The file is the buffer: a slow sink costs neither memory nor time."""

    def __init__(self, file: int, sink: Callable[[bytes], None]) -> None:
        self.shown = 0
        self.failure: str | None = None
        self._sink, self._start, self._size, self._over = sink, os.fstat(file).st_size, 0, False
        self._changed = threading.Condition()
        self._file, self._read = file, hashlib.sha256()
        self._thread = threading.Thread(target=self._show, name="transcript-sink", daemon=True)

    def start(self) -> None:
        self._file = os.dup(self._file)  # its own: a sink that blocks outlives the transcript
        self._thread.start()

    @property
    def digest(self) -> str:
        """Of what was shown: made here, while the command still prints."""
        return self._read.hexdigest()

    def more(self, size: int) -> None:
        with self._changed:
            self._size = size
            self._changed.notify()

    def finish(self, timeout: float) -> None:
        """Show what is left, as long as the sink takes it."""
        with self._changed:
            self._over = True
            self._changed.notify()
        before = -1  # as long as it takes something, there is hope
        while self._thread.is_alive() and before != self.shown:
            before = self.shown
            self._thread.join(timeout)

    def close(self) -> None:
        """A sink that wakes up later is given nothing more."""
        with self._changed:
            self._over, self._size = True, 0
            self._changed.notify()

    def _show(self) -> None:
        try:
            while data := self._next():
                self._read.update(data)
                self._sink(data)
                self.shown += len(data)
            self._sink(b"")  # that was all
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            os.close(self._file)

    def _next(self) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: self._over or self.shown < self._size)
            wanted = min(CHUNK_BYTES, self._size - self.shown)
        return os.pread(self._file, wanted, self._start + self.shown) if wanted > 0 else b""


class _KnownSecrets:
    """Masks secrets in a stream as if it came in one piece; holds back only what may be the beginning of one."""

    def __init__(self, secrets: Collection[str]) -> None:
        self.count = 0
        self._secrets = tuple(_longest_first([os.fsencode(secret) for secret in secrets]))
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._first = frozenset(secret[0] for secret in self._secrets)
        self._longest = max(map(len, self._secrets), default=0)
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._secrets:
            return chunk
        data = self._held + chunk
        return self._masked(data, self._undecided(data, 0))

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        return self._masked(self._held, len(self._held)) if self._secrets else b""

    def _masked(self, data: bytes, undecided: int) -> bytes:
        if not stream.has_any(data, self._secrets):  # much cheaper than the pattern
            self._held = data[undecided:]
            return data[:undecided]
        parts, at = [], 0
        final = undecided == len(data)
        for found in self._pattern.finditer(data):
            if found.start() >= undecided:
                break
            parts += [data[at : found.start()], MASK.encode()]
            at = found.end()
            self.count += 1
            if at > undecided:
                undecided = len(data) if final else self._undecided(data, at)
        self._held = data[undecided:]
        return b"".join([*parts, data[at:undecided]])

    def _undecided(self, data: bytes, since: int) -> int:
        """Where the first secret may begin that more data could complete."""
        for at in range(max(since, len(data) - self._longest + 1), len(data)):
            if data[at] in self._first:
                end = data[at:]
                if any(len(secret) > len(end) and secret.startswith(end) for secret in self._secrets):
                    return at
        return len(data)


@overload
def mask(text: str, secrets: Collection[str]) -> str: ...
@overload
def mask(text: bytes, secrets: Collection[str]) -> bytes: ...
def mask(text: str | bytes, secrets: Collection[str]) -> str | bytes:
    """The text with `***` for every secret in it; where they overlap the first counts, and of two the longer."""
    if isinstance(text, bytes):
        masking = _KnownSecrets(secrets)
        return masking.feed(text) + masking.rest()
    found = _longest_first(list(secrets))
    return re.sub("|".join(map(re.escape, found)), MASK, text) if found else text


def _longest_first(secrets: list[T]) -> list[T]:
    return sorted(filter(None, secrets), key=len, reverse=True)


def tail(path: Path, characters: int = 4000) -> str:
    """The end of a transcript as text; says so when something came before it. Raises OSError when there is none."""
    with open_plain(path) as file:
        size = file.seek(0, os.SEEK_END)
        begin = file.seek(max(0, size - 4 * characters - 4))
        text = file.read().decode(errors="replace")
    end = text[-characters:] if characters else ""
    if begin == 0 and end == text:
        return text
    return f"[the last {len(end)} characters of {size} bytes; all of it: {path}]\n{end}"


INLINE_BYTES = 4096  # a longer one is a blob


def kept(path: Path, size: int, blobs: Blobs, known: str = "", *, exact: bool = False) -> dict[str, Any]:
    """A whole transcript as an entry has it: its text when it is short, else the name of a blob.

    A short one costs no sync of its own. `exact`: what is no text is a blob too, byte for byte. `known` is its digest
    where somebody has read it to its end already.
    """
    if size <= INLINE_BYTES:
        with suppress(UnicodeDecodeError):
            return {"text": read_plain(path).decode(errors="strict" if exact else "replace")}
    return {"blob": blobs.adopt(path, known), "size": size}


def blobs_in(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """What an entry with that transcript refers to."""
    return (kept["blob"],) if "blob" in kept else ()


FIRST_BYTES = 256 * 1024  # kept of what is printed, when it is more than both together
LAST_BYTES = 768 * 1024
_LINE_BYTES = 1024  # how far from a cut the end of a line is looked for
_NEAR_BYTES = 16 * 1024  # what lies across a cut is seen whole when it reaches no further


class PrintedContent(NamedTuple):
    """What is kept, and what was done to it."""

    kept: bytes
    size: int  # of all that was printed, in bytes
    left_out: int
    masked: int  # secrets
    left_open: bool  # something outside the check's session may still print

    def notes(self) -> Iterator[str]:
        """What a reader has to know, in words."""
        if self.left_out:
            yield f"its output was cut: {self.left_out} of {self.size} bytes were left out"
        if self.masked:
            yield f"masked {self.masked} secret{'s' if self.masked > 1 else ''} in its output"
        if self.left_open:
            yield "something that it started still has its output open"


class Printed:
    """What one check prints. Hand `writer` to it, then `begin()`; when it is over, `close()` and see `content()`."""

    def __init__(self, rules: tuple[SecretRule, ...] | None = None) -> None:
        self._rules = rules
        self._pipe = Pipe(self._keep)
        self._first, self._last, self._size = bytearray(), bytearray(), 0

    @property
    def writer(self) -> int:
        return self._pipe.writer

    def begin(self) -> None:
        """Read from now on. Only the check has the writing end then."""
        self._pipe.begin("check-output", "reading what a check prints")

    def close(self, timeout: float = 1.0) -> None:
        """Read to the end. A pipe that something outside the check's session holds open is given up."""
        self._pipe.finish(timeout)

    def _keep(self, chunk: bytes) -> None:
        self._first += chunk[: max(0, FIRST_BYTES + _NEAR_BYTES - self._size)]
        self._last += chunk[max(0, FIRST_BYTES - self._size) :]
        self._size += len(chunk)
        if len(self._last) > 2 * (LAST_BYTES + _NEAR_BYTES):
            del self._last[: -LAST_BYTES - _NEAR_BYTES]

    def content(self) -> PrintedContent:
        """What is kept of it, with secrets masked."""
        first, last = bytes(self._first), bytes(self._last[-LAST_BYTES - _NEAR_BYTES :])
        if self._size <= FIRST_BYTES + LAST_BYTES:
            whole = _cut(first[:FIRST_BYTES] + last, 0, self._size, self._rules)
            return PrintedContent(whole.kept, self._size, 0, whole.masked, self._pipe.left_open)
        # the last whole line of the one, the first of the other; just there when none ends or begins near it
        upto, limit = first.rfind(b"\n", FIRST_BYTES - _LINE_BYTES, FIRST_BYTES) + 1, len(last) - LAST_BYTES
        since = last.find(b"\n", limit - 1, limit + _LINE_BYTES) + 1
        begin = _cut(first, 0, upto or FIRST_BYTES, self._rules)
        end = _cut(last, since or limit, len(last), self._rules)
        left_out = self._size - begin.taken - end.taken
        between = b"%s[%d bytes were left out here]\n" % (b"" if begin.kept.endswith(b"\n") else b"\n", left_out)
        masked = begin.masked + end.masked
        return PrintedContent(begin.kept + between + end.kept, self._size, left_out, masked, self._pipe.left_open)


class _Cut(NamedTuple):
    kept: bytes
    taken: int  # how many bytes that was before anything was masked
    masked: int


def _cut(data: bytes, begin: int, end: int, rules: tuple[SecretRule, ...] | None) -> _Cut:
    """That part of the data, with secrets masked. A secret that lies across an edge is left out whole."""
    spans = list(stream.spans_in(data, rules))
    begin = max([begin, *(stop for start, stop in spans if start < begin < stop)])
    end = max(begin, min([end, *(start for start, stop in spans if start < end < stop)]))
    spans = [(start, stop) for start, stop in spans if begin <= start and stop <= end]
    edges = [begin, *(edge for span in spans for edge in span), end]
    parts = [data[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    return _Cut(MASK.encode().join(parts), end - begin, len(spans))
