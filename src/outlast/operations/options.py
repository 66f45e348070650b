"""What each field is on the command line: its option, what that takes, and what it means.

Made from the requests: a field's name is its option, its type says what that takes, its sentence is its help. `SPELT`
has what one types otherwise than one sends it. `doors/cli/options.json` is all of it as text, so that a command knows
its options without loading any operation; `python -m outlast.operations.options` writes it anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from outlast.operations.observed import SEEN
from outlast.operations.operation import WHOSE, Operation, sentence_of
from outlast.operations.table import OPERATIONS

FILE = Path(__file__).parents[1] / "doors" / "cli" / "options.json"
NEVER = (*WHOSE, *SEEN, "listing")  # shared by all commands, or what the command itself sees of files
_NAMED = re.compile(r"`(\w+)`")

# By the name of a field, or of an operation and one of its fields: the option, where the name is not what one types.
SPELT = {
    "acceptance_checks": "--check",
    "acknowledged": "--ack",
    "bind": "--no-bind",
    "environment": "--env",
    "execution_packet_v1": "--packet",
    "execution_state_v1": "--state",
    "expected": "--expect",
    "expected_revision": "--expect",
    "file_path": "--entry",
    "from_step": "--from",
    "handoff_id": "--id",
    "handoff_kind": "--kind",
    "handoff_lint.summary": "-m --summary",
    "handoff_recover.file_path": "--file",
    "handoff_settle.run_checks": "--no-checks",
    "handoff_store.summary": "-m --summary",
    "handoff_text": "--text",
    "kinds": "--kind",
    "next_action": "--next",
    "note": "-m --note",
    "pinned": "--pin",
    "refs": "--ref",
    "repo_root": "--repo",
    "run_id": "--run",
    "started_by": "--actor",
    "tags": "--tag",
    "target_files": "--file",
    "task_complete.run_checks": "--no-checks",
    "task_pause.summary": "-m --summary",
    "trace": "--trace-id",
    "workspace_records.pinned": "--pinned",
}
# What is said of one that is typed otherwise than it is sent.
TYPED = {
    "acceptance_checks": "How to tell that it is done: a shell command that exits 0, or a JSON object.",
    "bind": "Look at no file: it is stored unbound, and the verdict is weaker.",
    "cursor": "The last one of the page before: those after it.",
    "evidence": 'What came of a check: {"check": …, "passed": true}, or @FILE.',
    "execution_packet_v1": "For the next run, kept byte for byte: an object, or @FILE.",
    "execution_state_v1": "The state of the work, kept byte for byte: an object, or @FILE.",
    "file_path": "Where to begin [the first --file].",
    "handoff_recover.file_path": "The one about this file, instead of ANCHOR.",
    "handoff_settle.run_checks": "Run no checks; those on record must do.",
    "handoff_text": "What to do from here, or @FILE, or - (stdin) [as --next].",
    "home_acts.cursor": "`next` of the page before: those before it.",
    "meta": "An object to keep with it, or @FILE.",
    "repo_root": "The folder that the files are in [this repository].",
    "run_checks": "Run its checks, and record what came of them.",
    "run_resume.flow": "The flow to go on with, wherever its code is: flow.yaml, file.py or module:name; or its name.",
    "target_files": "A file it is about, named from here; the first to open first.",
    "task_complete.run_checks": "Run no checks; those on record must do.",
    "workspace_records.pinned": "Only those that are pinned.",
}
# What an option takes, in a word, where that is not its own last word.
TAKEN = {
    "CODE[:SUBJECT]": "accept",
    "DIR": "repo_root",
    "ID": "supersedes",
    "MUST": "must_change must_keep must_remove",
    "RUN": "cursor",
    "FILE": "creates environment file_path target_files",
    "JSON": "evidence",
    "NAME": "assignee branch by started_by symbol",
    "NEXT": "home_acts.cursor",
    "TEXT": "acknowledged handoff_text missing next_action note prefix risk source summary",
    "TIME": "since until",
    "WHEN": "expires",
    "WHY": "override",
}
_TAKEN = {name: word for word, names in TAKEN.items() for name in names.split()}
_OF_KIND = {"number": "N", "seconds": "N", "json": "JSON", "time": "TIME"}

# Operations that no command has the options of, and why.
NOT_BY_COMMAND = {
    "handoff_get": "`outlast handoff show --id` is by anchor or id",
    "handoff_get_by_anchor": "`outlast handoff show` takes ANCHOR@N",
    "handoff_get_blob": "only a client fetches content by its digest",
    "handoff_near": "`outlast handoff recover` looks at the branch and the files itself",
    "handoff_put_blob": "only a client sends content by its digest",
    "home_facts": "`outlast doctor` tells them among others",
    "interrupt_cancel": "`outlast answer --cancel WHY`",
    "interrupt_get": "`outlast show` and `inbox` show it",
    "interrupt_list": "`outlast show` lists them",
    "key_list": "`outlast keys list`",
    "run_audit": "`outlast audit` takes a run or a flow",
    "run_displaced_content": "`outlast displaced RUN PATH`",
    "run_due": "`outlast tick --dry-run`",
    "run_log": "`outlast logs` prints it",
    "run_outcome": "`outlast show`, and `run --wait`",
    "run_outputs": "`outlast outputs`, which puts them back too",
    "run_plan": "`outlast resume --dry-run`",
    "run_step_handoff": "`outlast handoff show --run RUN --step STEP`",
    "run_timeline": "`outlast show --timeline`",
    "session_append_many": "a file of messages has no command; `session append` takes one",
    "session_get": "`outlast session show`",
    "session_memo": "`outlast session memo` shows it and sets it",
    "session_open": "the first message opens one",
    "stream_token": "only a web page needs one",
    "task_events": "`outlast task inspect --history N`",
    "task_get": "`outlast task inspect`",
    "task_inspect": "`outlast task inspect` looks at files",
    "workspace_content": "`outlast workspace get`",
    "workspace_get_checkpoint": "`outlast workspace checkpoints ID`",
    "workspace_get_record": "`outlast workspace records REF`",
    "workspace_save": "`outlast workspace save` streams what it is given",
}


# What `--json` of a command has beside the answer of its operation, and why.
OF_RUN = "so that it says of which run it is"
BESIDE: dict[str, dict[str, str]] = {
    "handoff_history": {"anchor": "so that it says of which anchor it is"},
    "handoff_recover": {"prompt": "with --prompt: the same as a text for a model"},
    "interrupt_inbox": {
        "answered": "runs that can go on are looked for where waits are",
        "contested": "so are handoffs that something contests",
    },
    "run_displaced": {"run_id": OF_RUN},
    "run_get": {
        "verdict": "`show` says at once whether it can go on,",
        "steps": "how each step stands,",
        "interrupts": "what it waits for,",
        "mirror": "where its receipts lie as files,",
        "displaced": "and which files gave way; each is a call of its own elsewhere",
    },
    "run_list": {"cursor": "where the next page begins: `--cursor`"},
    "run_events": {"run_id": OF_RUN, "error": "what ended a list that was begun"},
    "run_logs": {"run_id": OF_RUN},
    "run_receipts": {"run_id": OF_RUN},
    "run_start": {"queue": "of a run that waits in one", "held_up": "and why nobody takes it"},
    "session_messages": {"session": "`session show` has the session, and its newest messages"},
    "workspace_get": {"output": "with --output: the file that was written"},
}
# Commands whose `--json` is another thing than the answer of their operation, and why.
INSTEAD = {
    "answer": "the run that was decided about, or how it stands when it went on: that is what one waits for",
    "approve": "as of answer",
    "decline": "as of answer",
    "displaced PATH": "with PATH one file, not a list",
    "inbox": "each wait has its fields and the commands that answer it",
    "logs": "each transcript with its text, written as it is read",
    "outputs": "without --restore the files, as run_outputs has them, and of which run",
    "resume --dry-run": "what run_plan answers, and how the run stands now",
    "run --dry-run": "what would happen, which no other door can be asked: the flow's code is here",
    "session memo": '{"memo": null} where there is none',
    "show --timeline": "what run_timeline answers, with the run's id and status",
    "signal --resume": "how the run stands that went on",
    "watch": "an event a line, as it comes",
    "workspace records REF": "a list of one",
    "workspace checkpoints ID": "a list of one",
}


def options_of(operation: Operation) -> list[dict[str, Any]]:
    """The options of an operation, in the order of its fields."""
    fields = {each.name: each for each in msgspec.structs.fields(operation.request)}
    harmless = ("operation_id",) if operation.repeats else ()
    return [_option(operation, each) for name, each in fields.items() if name not in (*NEVER, *harmless)]


def _option(operation: Operation, field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    kind, choices = _takes(field.type)
    sentence = _of(TYPED, operation, field.name) or sentence_of(operation.request, field.name)
    flags = _flags(operation, field.name)
    taken = _OF_KIND.get(kind) or _of(_TAKEN, operation, field.name) or flags[-1].rpartition("-")[2].upper()
    made = {
        "name": field.name,
        "flags": flags,
        "kind": kind,
        "metavar": taken if kind != "flag" else "",
        "choices": choices,
        "required": field.required,
        "help": _help(sentence, operation) + (f" One of: {', '.join(choices)}." if choices else ""),
    }
    said = {name: value for name, value in made.items() if value}
    return said | ({"default": field.default} if isinstance(field.default, str | int | float) else {})


def _of(table: dict[str, str], operation: Operation, field: str) -> str:
    return table.get(f"{operation.name}.{field}") or table.get(field, "")


def _flags(operation: Operation, field: str) -> list[str]:
    return (_of(SPELT, operation, field) or f"--{field.replace('_', '-')}").split()


def _help(sentence: str, operation: Operation) -> str:
    """A sentence in the words of the command line: fields by their options, and a flag as what is done."""

    def as_option(found: re.Match[str]) -> str:
        is_field = found[1] in operation.request.__struct_fields__
        return _flags(operation, found[1])[-1] if is_field else found[0]

    done = sentence.removeprefix("Whether to ")
    return _NAMED.sub(as_option, done[:1].upper() + done[1:])


def _takes(kind: Any) -> tuple[str, list[str]]:
    """What an option takes, and the values to choose from, if they are few."""
    kinds = [each for each in _plain(kind) if each not in (NoneType, msgspec.UnsetType)]
    first = kinds[0]
    if get_origin(first) is Literal:
        return "text", [*get_args(first)]
    if get_origin(first) is tuple:
        inside = get_args(first)[0]
        return "many", [*get_args(inside)] if get_origin(inside) is Literal else []
    simple = {bool: "flag", int: "number", float: "seconds", str: "text", datetime: "time"}
    return simple.get(first, "json"), []


def _plain(kind: Any) -> Iterator[Any]:
    """The types that a field may have, without what is said about them."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _plain(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for each in get_args(kind):
            yield from _plain(each)
    else:
        yield kind


def as_text() -> str:
    """All that commands take, an option a line."""
    lines = []
    for name, operation in ((name, each) for name, each in OPERATIONS.items() if name not in NOT_BY_COMMAND):
        options = ",\n".join(json.dumps(each, ensure_ascii=False) for each in options_of(operation))
        items = f'"items": {json.dumps(operation.items)}, ' if operation.items else ""
        lines.append(f'{json.dumps(name)}: {{{items}"options": [\n{options}\n]}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(as_text())
