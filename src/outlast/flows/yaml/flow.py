"""A flow file as a flow: found by its path and bound to what it is started with. What runs it: `commands/flow.py`.

That is its inputs, checked against their types, and its secrets.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from outlast import errors
from outlast.files.repository import top_of
from outlast.flows.loading import FLOW_FILES, full_path, here
from outlast.flows.spec import FlowSpec, Signature
from outlast.flows.yaml.model import REQUIRED, FlowDefinition, Input, SubFlow, code_of_definition
from outlast.home import ours
from outlast.values.codec import encode, hash_of_few, identity


class FlowFileSpec(FlowSpec, frozen=True, dict=True, kw_only=True):
    """A flow whose body is a file of commands."""

    is_of_commands: ClassVar[bool] = True
    definition: FlowDefinition
    file: Path

    @cached_property
    def code(self) -> str:
        """A digest of what its file says, however it is written there, and those of the flows that it runs."""
        own = code_of_definition(self.definition)
        others = sorted(code_of_definition(each.definition) for each in self.others())
        return identity(encode([own, *others])) if others else own

    @cached_property
    def needs(self) -> dict[str, str]:
        """Commands are given no live objects."""
        return {}

    @property
    def identity(self) -> str:
        """The name that its file gives it."""
        return f"flow:{self.name}"

    @property
    def folder(self) -> str:
        return str(self.file.parent)

    def others(self) -> list[FlowFileSpec]:
        """The flow files that it runs, and those that they run, each once. Raises FlowNotFound, RecipeInvalid."""
        found: dict[Path, FlowFileSpec] = {}
        todo = [self]
        while todo:
            spec = todo.pop()
            for node in (node for node in spec.definition.nodes() if isinstance(node, SubFlow)):
                other = find_flow_file(node.flow, spec.file.parent)
                if other.file not in found:
                    found[other.file] = other
                    todo.append(other)
        return list(found.values())

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name. Raises InputsInvalid, and SecretMissing while nothing has begun."""
        if args:
            raise errors.InputsInvalid(
                self.name, "its inputs are given by name", ", ".join(self.definition.inputs) or "none"
            )
        return self.bind_all(kwargs)

    def bind_all(self, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
        """The same; `words` are texts of a command line."""
        inputs = bind_inputs(self.definition, given, words=words)
        demand_secrets(self.definition, os.environ)
        for other in self.others():
            demand_secrets(other.definition, os.environ)
        return inputs

    def typed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.bind((), inputs)


def find_flow_file(source: str, *folders: Path) -> FlowFileSpec:
    """The flow that a file holds now, looked for in these folders. Raises FlowNotFound, RecipeInvalid.

    The file is read every time: nothing else decides what runs. What the same bytes say may be known (`definition_of`).
    """
    place = source if source.endswith(FLOW_FILES) else source.rpartition(":")[0]
    paths = [full_path(folder / place) for folder in folders or (here(),)]
    path = next((path for path in paths if os.path.exists(path)), None)
    if path is None:
        raise errors.FlowNotFound(source, "there is no such file")
    definition = _read(Path(os.path.realpath(path)))
    if source != place and source != f"{place}:{definition.name}":
        raise errors.FlowNotFound(source, f"that file is the flow {definition.name!r} now")
    # its body is not here: whoever runs it performs its nodes (`commands/flow.py`)
    named, file = f"{path}:{definition.name}", Path(os.path.realpath(path))
    parameters = Signature(_body, skip=1)
    return FlowFileSpec(_body, definition.name, named, False, parameters, True, definition=definition, file=file)


def _read(path: Path) -> FlowDefinition:
    if (known := definition_of(path)) is not None:
        return known
    from outlast.flows.yaml.read import read_flow_file  # late: it loads the parser

    return read_flow_file(path)


def given_inputs(node: SubFlow, inputs: Mapping[str, Any], item: Any) -> dict[str, Any]:
    """What the other flow is started with: values as they stand, and those that stand for one of this flow."""
    return {name: _meant(value, inputs, item) for name, value in node.inputs.items()}


def _meant(value: Any, inputs: Mapping[str, Any], item: Any) -> Any:
    found = re.fullmatch(REFERENCE, value) if isinstance(value, str) else None
    if found is None:
        return value
    return item if found[2] is None else next(inputs[name] for name in inputs if name.upper() == found[2])


def below_top(folder: Path) -> str:
    """A flow's folder as a path from the top of its repository; empty outside of one."""
    top = top_of(folder)
    return os.path.relpath(os.path.realpath(folder), top) if top else ""


def _body(run: Any, **inputs: Any) -> dict[str, Any]:
    """What the body of every flow file takes and gives."""
    raise AssertionError("a flow file is performed, not called")


ARTICLES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "json": "a JSON value",
}
_PYTHON: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
_INTEGER = r"0|-?[1-9][0-9]{0,999}"
_NUMBER = r"-?(0|[1-9][0-9]{0,999})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?"
REFERENCE = r"\$(OUTLAST_ITEM|OUTLAST_INPUT_([A-Z0-9_]+))"  # stands for an input or an item of this flow
_LONGEST = (1 << 17) - 1  # bytes of NAME=value: Linux takes no longer variable


def bind_inputs(definition: FlowDefinition, given: Mapping[str, Any], *, words: bool = False) -> dict[str, Any]:
    """The flow's inputs, all of them, defaults filled in. Raises InputsInvalid that names everything wrong.

    Text is taken for a whole number, a number or a truth value only when it can be read in one way. With `words` (from
    a command line) text for a `json` input is JSON; without, it is the text itself.
    """
    faults = [f"it has no input {name!r}" for name in given if name not in definition.inputs]
    bound: dict[str, Any] = {}
    for name, wanted in definition.inputs.items():
        value = given.get(name, wanted.default)
        if value is REQUIRED:
            faults.append(f"{name} is missing")
            continue
        bound[name] = _typed(value, wanted.type, words) if name in given else value
        fault = misfit(wanted.type, bound[name]) or unfit_for_a_variable(f"OUTLAST_INPUT_{name}", bound[name])
        faults += [f"{name} {fault}"] if fault else []
    if faults:
        raise errors.InputsInvalid(definition.name, "; ".join(faults), signature(definition))
    return bound


def signature(definition: FlowDefinition) -> str:
    """The inputs as a person reads them: `ticket: string, limit: integer = 5`."""
    return ", ".join(_shown(each) for each in definition.inputs.values()) or "none"


def _shown(wanted: Input) -> str:
    default = "" if wanted.default is REQUIRED else f" = {json.dumps(wanted.default, ensure_ascii=False)}"
    return f"{wanted.name}: {wanted.type}{default}"


def _typed(value: Any, kind: str, words: bool) -> Any:
    """A text as the type that is wanted, where it says that plainly; else the value as it is."""
    if not isinstance(value, str):
        return value
    if kind == "integer" and re.fullmatch(_INTEGER, value):
        return int(value)
    if kind == "number" and re.fullmatch(_NUMBER, value):
        return int(value) if re.fullmatch(_INTEGER, value) else float(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    return _parsed(value) if kind == "json" and words else value


def bound_to(wanted: Input, value: Any) -> Any:
    """A value for an input, as `bind_inputs` takes it."""
    return _typed(value, wanted.type, words=False)


def _parsed(word: str) -> Any:
    try:
        return json.loads(word, parse_constant=lambda name: math.nan)
    except (ValueError, RecursionError):
        return _NoJson(word)


class _NoJson(str):
    """A word that is no JSON; misfit says so."""

    __slots__ = ()


def misfit(kind: str, value: Any) -> str:
    """Why a value is not of an input's type; empty when it is."""
    if kind == "json":
        if isinstance(value, _NoJson):
            return f"is no JSON: {_seen(str(value))} (a text needs its quotes: '\"text\"')"
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            return f"is no JSON: {error}"
        return ""
    if not isinstance(value, _PYTHON[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return f"is {_seen(value)}, not {ARTICLES[kind]}"
    return "is no finite number" if isinstance(value, float) and not math.isfinite(value) else ""


def _seen(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float | None) else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"


def unfit_for_a_variable(variable: str, value: Any) -> str:
    """Why a value cannot reach a command as this variable; empty when it can."""
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds half of a character, which no command can be given"
    if "\0" in text:
        return "holds a NUL, which no command can be given"
    size, limit = len(text.encode()), _LONGEST - len(variable) - 1
    return "" if size <= limit else f"has {size:,} bytes; a command can be given {limit:,}: put it in a file"


def demand_secrets(definition: FlowDefinition, environ: Mapping[str, str]) -> dict[str, str]:
    """The flow's secrets with their values. Raises SecretMissing that names all that are unset or empty."""
    missing = [name for name in definition.secrets if not environ.get(name)]
    if missing:
        raise errors.SecretMissing(definition.name, ", ".join(missing))
    return {name: environ[name] for name in definition.secrets}


# -- kept from when it was read: the same bytes are parsed and checked once on a machine -------------------
#
# To read a file and check all of it takes a new process longer than anything else before its first command. What came
# of it is kept in the user's cache folder, never in a home: beside the flow file only this user says what runs. It is
# found by a digest of the file's bytes and of the code that reads them, the parser included, and carries its own. What
# is damaged, of other code, or could have been written by somebody else counts for nothing: the file is read. Nothing
# is kept of a file whose meaning depends on what lies around it (`read.py` says which), nor of one with a secret in it.


MOST_KEPT = 200  # then the older half goes
MOST_BYTES = 1 << 20  # of a flow file
READERS = (  # what decides what is read from a file
    *("read.py", "rules.py", "values.py", "keys.py", "model.py", "flow.py", "../loading.py", "../spec.py"),
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
    if not (above := kept_folder()):
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
    if not (above := kept_folder()) or not _is_whole(said, definition) or _has_secret(definition):
        return
    with suppress(OSError):
        os.makedirs(above, 0o700, exist_ok=True)
        _make_room(above)
        # all of it or nothing; it need not outlast a power cut: its digest tells
        path = os.path.join(above, _name(text))
        beside = f"{path}.{os.getpid()}"
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, _digest(said) + b"\n" + said)
        finally:
            os.close(handle)
        os.replace(beside, path)


def kept_folder() -> str:
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


def _make_room(above: str) -> None:
    with os.scandir(above) as found:
        files = list(found)
    if len(files) < MOST_KEPT:
        return
    for each in sorted(files, key=lambda file: file.stat(follow_symlinks=False).st_mtime)[: len(files) // 2]:
        os.unlink(each.path)


def _name(text: bytes) -> str:
    return hash_of_few(_code() + text).hexdigest()


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
    return hash_of_few(said).hexdigest().encode()
