"""What flow files say, kept from when they were read: the same bytes are parsed and checked once on a machine.

To read a file and check all of it takes a new process longer than anything else before its first command. What came of
it is kept in the user's cache folder, never in a home: beside the flow file only this user says what runs. It is found
by a digest of the file's bytes and of the code that reads them, the parser included, and carries its own. What is
damaged, of other code, or could have been written by somebody else counts for nothing: the file is read. Nothing is
kept of a file whose meaning depends on what lies around it (`read.py` says which), nor of one with a secret in it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import msgspec

from outlast.flows.yaml.model import FlowDefinition, code_of_definition
from outlast.home import ours

MOST_KEPT = 200  # then the older half goes
MOST_BYTES = 1 << 20  # of a flow file
READERS = (  # what decides what is read from a file
    *("read.py", "rules.py", "values.py", "keys.py", "model.py", "flow.py", "kept.py", "../loading.py", "../spec.py"),
    *("../../ledger/journal.py", "../../secrets/find.py"),
    *(f"../../values/{name}.py" for name in ("codec", "schema", "text", "yaml_tree")),
)
VERSION = "../../__init__.py"  # the file that says it


def definition_of(path: Path) -> FlowDefinition | None:
    """What a flow file says, if that is known without parsing it."""
    try:
        return _known(_text(path))
    except (OSError, ValueError):
        return None  # who reads it says what is wrong with it


def _text(path: Path) -> bytes:
    """The file as it is now. Raises OSError, ValueError; a pipe or device is never waited for."""
    at = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(at)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise ValueError(path)
        return os.read(at, MOST_BYTES)
    finally:
        os.close(at)


@lru_cache(maxsize=16)
def _known(text: bytes) -> FlowDefinition | None:
    """The same bytes are looked up once in a process: a resume asks for each step of them."""
    if not (above := folder()):
        return None
    raw = ours.content_of(os.path.join(above, _name(text)), frozenset({os.geteuid()}))  # by sudo: not the caller's
    digest, _, said = raw.partition(b"\n")
    if not said or digest != _digest(said):
        return None
    with suppress(msgspec.DecodeError, msgspec.ValidationError):
        return msgspec.json.decode(said, type=FlowDefinition)
    return None


def keep(text: bytes, definition: FlowDefinition) -> None:
    """Keep what a file says, if all of it can be; where that cannot be written, it is read again the next time."""
    said = msgspec.json.encode(definition)
    if not (above := folder()) or not _is_whole(said, definition) or _has_secret(definition):
        return
    with suppress(OSError):
        os.makedirs(above, 0o700, exist_ok=True)
        _make_room(above)
        _write(os.path.join(above, _name(text)), _digest(said) + b"\n" + said)


def folder() -> str:
    """XDG_CACHE_HOME/outlast/flows, else ~/.cache/outlast/flows; "" when there is neither. Only whole paths count."""
    above = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(above):
        above = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(above, "outlast", "flows") if os.path.isabs(above) else ""


def _is_whole(said: bytes, definition: FlowDefinition) -> bool:
    """Whether what is kept is the very same when it is read: not every value of YAML is one of JSON."""
    again = msgspec.json.decode(said, type=FlowDefinition)
    return again == definition and code_of_definition(again) == code_of_definition(definition)


def _has_secret(definition: FlowDefinition) -> bool:
    from outlast.secrets.find import counted  # who finds what is kept looks for none

    return counted(msgspec.to_builtins(definition))[1] > 0


def _write(path: str, content: bytes) -> None:
    """All of it or nothing. It need not outlast a power cut: its digest tells."""
    beside = f"{path}.{os.getpid()}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)
    os.replace(beside, path)


def _make_room(above: str) -> None:
    with os.scandir(above) as found:
        files = list(found)
    if len(files) < MOST_KEPT:
        return
    for each in sorted(files, key=lambda file: file.stat(follow_symlinks=False).st_mtime)[: len(files) // 2]:
        os.unlink(each.path)


def _name(text: bytes) -> str:
    return sha256(_code() + text).hexdigest()


@cache
def _code() -> bytes:
    """What tells the code that reads flow files from any other, also from one that was changed a minute ago.

    Where it is and its version too: some installers give all files one time, and a change may keep its file's size.
    """
    here, parser = os.path.dirname(__file__), find_spec("yaml")
    files = [*(os.path.join(here, each) for each in READERS), (parser and parser.origin) or ""]
    found = [(file, each.st_size, each.st_mtime_ns) for file in files for each in (os.stat(file),)]
    return repr(found).encode() + _text(Path(here, VERSION))


def _digest(said: bytes) -> bytes:
    return sha256(said).hexdigest().encode()
