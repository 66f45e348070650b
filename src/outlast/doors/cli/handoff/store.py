"""`outlast handoff store` and `lint`: a contract for whoever continues, and what would make it better.

The fields of a handoff on the command line: options, files, and one JSON object, turned into what the core takes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.completion import offer_anchors
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.handoff.names import command_for, revision_of
from outlast.doors.cli.render import emit, emit_exactly, facts, say
from outlast.errors import HandoffNotFound, HomeNotFound

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.handoffs.handoff import Handoff, Lint
    from outlast.python.handoffs import Handoffs


# The name of each option's value, and of the field that it is.
TEXTS = ("summary", "next_action", "symbol", "risk", "handoff_kind", "expires", "supersedes")
MUSTS = ("must_change", "must_remove", "must_keep")
FORMS = ("acceptance_checks", *MUSTS, "rollback")
FILES = ("target_files", "creates", "environment")
PACKETS = ("execution_state_v1", "execution_packet_v1")
GIVEN_TO_STORE = ("expected_revision", "operation_id", "tenant_id", "scope", "actor")

_OBJECT = "or a JSON object"
OPTIONS = (
    click.argument("anchor", metavar="[ANCHOR]", required=False, shell_complete=offer_anchors),
    click.option("-m", "--summary", metavar="TEXT", help="What this is about, in a sentence."),
    click.option("--text", "handoff_text", metavar="TEXT", help="What to know, or @FILE, or - (stdin) [as --next]."),
    click.option("--next", "next_action", metavar="TEXT", help="The one thing to do next."),
    click.option("--file", "target_files", multiple=True, metavar="FILE", help="A file it is about; repeat."),
    click.option("--creates", multiple=True, metavar="FILE", help="A file to be made; repeat."),
    click.option(
        "--check", "acceptance_checks", multiple=True, metavar="C", help=f"A shell command {_OBJECT}; repeat."
    ),
    click.option("--must-change", multiple=True, metavar="M", help=f"What must change: FILE, prose {_OBJECT}; repeat."),
    click.option("--must-remove", multiple=True, metavar="M", help="What must go; repeat."),
    click.option("--must-keep", multiple=True, metavar="M", help="What must stay; repeat."),
    click.option("--rollback", multiple=True, metavar="R", help="How to go back; repeat."),
    click.option("--ref", "refs", multiple=True, metavar="REF", help="What it rests on, in the workspace; repeat."),
    click.option("--entry", "file_path", metavar="FILE", help="Where to begin [the first --file]."),
    click.option("--symbol", metavar="NAME", help="Where in that file."),
    click.option("--env", "environment", multiple=True, metavar="FILE", help="A file of the environment; repeat."),
    click.option("--risk", metavar="TEXT", help="What may go wrong."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A word to find it by; repeat."),
    click.option("--kind", "handoff_kind", metavar="KIND", help="[task_handoff]"),
    click.option("--state", "execution_state_v1", metavar="JSON", help="Execution state: an object, or @FILE."),
    click.option("--packet", "execution_packet_v1", metavar="JSON", help="Execution packet: an object, or @FILE."),
    click.option("--expires", metavar="WHEN", help="When it is stale: 36h, 7d, a date [30d]."),
    click.option("--supersedes", metavar="ID", help="The handoff that it replaces."),
    click.option("--repo", "repo_root", metavar="DIR", help="The root of the files [this repository's]."),
    click.option("--from", "document", metavar="@FILE", help="All fields as one JSON object, or - (stdin)."),
)


def fields_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every option that is a field of a handoff."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given, but for files: those of the JSON object, and over them those of the options."""
    if given["document"] == "-" and given["handoff_text"] == "-":
        raise click.UsageError("standard input can be read once: by --from - or by --text -")
    fields = _document(given["document"]) if given["document"] is not None else {}
    anchor = given["anchor"]
    if anchor is not None and fields.get("anchor", anchor) != anchor:
        raise click.UsageError(f"ANCHOR is {anchor!r}, and the object of --from says {fields['anchor']!r}")
    fields |= {name: given[name] for name in ("anchor", *TEXTS) if given[name] is not None}
    fields |= {name: list(given[name]) for name in ("tags", "refs") if given[name]}
    fields |= {name: [form_of(text) for text in given[name]] for name in FORMS if given[name]}
    fields |= {name: content(given[name], f"--{name.split('_')[1]}") for name in PACKETS if given[name] is not None}
    if given["handoff_text"] is not None:
        fields["handoff_text"] = _text(given["handoff_text"])
    if given["repo_root"] is not None:
        fields["repo_root"] = os.path.abspath(given["repo_root"])
    if "handoff_text" not in fields and fields.get("next_action"):
        fields["handoff_text"] = fields["next_action"]
    return fields


def files_of(handoffs: Handoffs | None, given: Mapping[str, Any], root: Any) -> dict[str, Any]:
    """The fields that name files: from the current folder on the command line, from the root in a handoff.

    `handoffs` says what files are called; without it they are called as they are.
    """
    named = {name: list(given[name]) for name in FILES if given[name]}
    named |= {"file_path": [given["file_path"]]} if given["file_path"] is not None else {}
    fields: dict[str, Any] = {}
    for name, paths in named.items():
        found = handoffs.relative(paths, name, repo_root=root) if handoffs else map(os.path.normpath, paths)
        fields[name] = [*found] if name in FILES else next(iter(found))
    return fields | _musts_of(handoffs, given, root)


def _musts_of(handoffs: Handoffs | None, given: Mapping[str, Any], root: Any) -> dict[str, Any]:
    def named(name: str, form: str | dict[str, Any]) -> str | dict[str, Any]:
        return handoffs.relative_must(form, name, repo_root=root) if handoffs and isinstance(form, str) else form

    musts = {name: map(form_of, given[name]) for name in MUSTS if given[name]}
    return {name: [named(name, form) for form in forms] for name, forms in musts.items()}


# -- values --------------------------------------------------------------------------------------------


def form_of(text: str) -> str | dict[str, Any]:
    """A check, must or rollback: an object where it is JSON, else the text. `{ make; }` is a command."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        form: dict[str, Any] = _json(text)
    except ValueError as error:
        if text.lstrip()[1:].lstrip().startswith('"'):
            raise click.UsageError(f"{text!r} looks like a JSON object but is none: {error}") from error
        return text
    return form


def _json(text: str | bytes) -> Any:
    """Raises ValueError for what is no JSON, also where Python would be more lenient."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error


def content(word: str, option: str, *, stdin: bool = False) -> bytes:
    """What an option says: itself, what is in @FILE, or what comes on standard input."""
    if stdin and word == "-":
        return sys.stdin.buffer.read()
    if not word.startswith("@"):
        return word.encode("utf-8", "surrogateescape")
    try:
        with open(word[1:], "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{option}: cannot read {word[1:]!r}: {why}") from error


def _text(word: str) -> str:
    try:
        return content(word, "--text", stdin=True).decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--text: it is no UTF-8: {error.reason} at byte {error.start}") from error


def objects(words: tuple[str, ...], option: str) -> list[Any]:
    """JSON objects, one by one or in lists."""
    found: list[Any] = []
    for word in words:
        try:
            value = _json(content(word, option))
        except ValueError as error:
            raise click.UsageError(f"{option}: it is no JSON: {error}") from error
        found += value if isinstance(value, list) else [value]
    return found


def _document(word: str) -> dict[str, Any]:
    """The fields of one JSON object; packets as the bytes they have in it. Raises HandoffInvalid for an unknown one."""
    import msgspec

    if word != "-" and not word.startswith("@"):
        raise click.UsageError(f"--from takes @FILE or -, not {word!r}")
    try:
        given = msgspec.json.decode(content(word, "--from", stdin=True), type=dict[str, msgspec.Raw])
        fields = {name: _value(name, raw) for name, raw in given.items()}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.UsageError(f"--from: it is not one JSON object: {error}") from error
    _refuse_unknown(fields)
    return fields


def _value(name: str, raw: bytes) -> Any:
    text = bytes(raw).strip()
    return text if name in PACKETS and text.startswith(b"{") else _json(text)


def _refuse_unknown(fields: Mapping[str, Any]) -> None:
    from dataclasses import fields as fields_of_class

    from outlast.errors import HandoffInvalid
    from outlast.handoffs.handoff import Contract
    from outlast.values.text import nearest

    known = [*(each.name for each in fields_of_class(Contract)), *GIVEN_TO_STORE]
    for name in fields:
        if name not in known:
            raise HandoffInvalid(name[:100], "is no field of a handoff", nearest(name, known, "the fields are"))


@command("store")
@fields_options
@click.option("--again", is_flag=True, help="What is not given is as in the newest revision.")
@click.option("--expect", "expected_revision", type=click.IntRange(0), metavar="N", help="Only if N is the newest.")
@click.option("--baseline", is_flag=True, help="Run the checks now, and record what came of them.")
@click.option("--strict", is_flag=True, help="Refuse a weak handoff.")
@click.option("--redact", is_flag=True, help="Mask secrets instead of refusing them.")
@click.option("--no-bind", is_flag=True, help="Look at no file.")
@click.option("--claim-id", metavar="ID", help="Show the claim under which it is stored.")
@click.option("--operation-id", metavar="ID", help="The same one again stores nothing twice.")
@click.option("--actor", metavar="NAME", help="Who stores it [local].")
def store(door: Door, again: bool, baseline: bool, strict: bool, redact: bool, no_bind: bool, **given: Any) -> int:
    """Store the next revision of a handoff under ANCHOR, durable when this returns.

    Files are named from the current folder. --file, --check and the musts may be repeated; of --check and the musts
    a JSON object is taken as the object form: '{"run": "make", "cwd": "ui"}', '{"file": "a.py", "contains": "x"}'.
    """
    from outlast.doors.cli.handoff.checks import checks_shown
    from outlast.handoffs.reading import handoff_in_order

    fields = fields_of(given)
    said = {name: given.get(name) for name in (*GIVEN_TO_STORE, "claim_id")} | {"scope": door.scope}
    fields |= {name: value for name, value in said.items() if value is not None}
    options: dict[str, Any] = {"strict": strict, "redact": redact, "bind": not no_bind, "baseline": baseline}
    fields = fields if again else _whole(fields)
    with door.open(make=not again) as outlast:
        fields |= files_of(outlast.handoff, given, fields.get("repo_root"))
        fields = _whole(_again(outlast, fields, given)) if again else fields
        with checks_shown(door, outlast):
            stored = outlast.handoff.store(**fields, **options)
    if door.json:
        emit_exactly(handoff_in_order(stored))
    else:
        _say_stored(door, stored)
    return 0


def _again(outlast: Outlast, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The fields, those that were not given as in the newest revision; only that one, if nobody stores meanwhile."""
    from outlast.handoffs.handoff import CONTRACT_FIELDS

    if "anchor" not in fields:
        raise click.UsageError("ANCHOR is missing: --again is about one that was stored")
    was = outlast.handoff._get(anchor=fields["anchor"])  # nobody is shown it: that is not to have looked at it
    kept = {name: getattr(was, name) for name in CONTRACT_FIELDS if name != "repo_root"}
    if given["handoff_text"] is None and given["document"] is None and was.handoff_text != was.next_action:
        fields.pop("handoff_text", None)  # which was made of the next action only
    return kept | {"expected_revision": was.revision} | fields


def _whole(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if those are there that every handoff has."""
    if "anchor" not in fields:
        raise click.UsageError("ANCHOR is missing: the name that the handoff is recovered by")
    if "summary" not in fields:
        raise click.UsageError("-m TEXT is missing: what this is about, in a sentence")
    if "handoff_text" not in fields:
        ways = "--next TEXT, --text TEXT, --text @FILE, or --text - for standard input"
        raise click.UsageError(f"nothing says how to go on: {ways}")
    for name in ("operation_id", "tenant_id"):
        if not isinstance(fields.get(name), str | None):
            raise click.UsageError(f"--from: {name} is no text")
    return fields


def _say_stored(door: Door, stored: Handoff) -> None:
    from outlast.doors.cli.handoff.views import bound_to, outcome_of, say_lint
    from outlast.handoffs.difference import not_kept
    from outlast.handoffs.verdict import label_of, rivals_of

    what = "was stored already" if stored.replayed else "stored"
    say(f"{stored.anchor}@{stored.revision} {what}" + (", opened again" if stored.reopened else ""), "green")
    say_lint(stored.lint)
    bound = [("bound to", bound_to(stored.binding)), ("not kept", not_kept(stored.binding))]
    stays = ("stays behind", stored.binding.stays_behind if stored.binding else "")
    facts([("id", stored.id), *bound, stays, ("masked", ", ".join(stored.masked))])
    for each in stored.baseline:
        say(f"check {label_of(each.check)}: {outcome_of(each)}")
    for rival in rivals_of(stored):
        say(f"rival {rival.subject}: {rival.found}; whoever recovers it is told so", "yellow")
        say(f"  {door.pasted(rival.advice)}")
    there = door if stored.scope == "default" else replace(door, scope=stored.scope)
    say(f"recover it: {command_for(there, 'recover', stored.anchor)}")


@command("lint")
@fields_options
def lint(door: Door, **given: Any) -> int:
    """What would make a handoff better, with better wordings. Nothing is stored.

    With ANCHOR alone: of the handoff stored there. Exits 4 when it is weak.
    """
    from outlast.doors.cli.handoff.views import say_lint
    from outlast.values.codec import jsonable

    found = _lint_stored(door, given["anchor"]) if _is_alone(given) else _lint_given(door, given)
    if door.json:
        emit(jsonable(found))
    else:
        say_lint(found)
    return REFUSED if found.weak else 0


def _is_alone(given: dict[str, Any]) -> bool:
    return given["anchor"] is not None and not any(value for name, value in given.items() if name != "anchor")


def _lint_stored(door: Door, word: str) -> Lint:
    with door.open() as outlast:
        anchor, revision = revision_of(outlast, word)
        try:
            return outlast.handoff.get(anchor=anchor, revision=revision).lint
        except HandoffNotFound:  # nobody stored it: its task may have a run
            return outlast.handoff.recover(anchor, revision=revision).handoff.lint


def _lint_given(door: Door, given: dict[str, Any]) -> Lint:
    """Of fields, which need no home: without one, files are called as they are."""
    from outlast.handoffs.contract import draft_of
    from outlast.handoffs.lint import lint

    fields = fields_of(given)
    with _home(door) as outlast:
        fields |= files_of(outlast.handoff if outlast else None, given, fields.get("repo_root"))
    return lint(draft_of(**{name: value for name, value in fields.items() if name not in GIVEN_TO_STORE}))


def _home(door: Door) -> Any:
    try:
        return door.open()
    except HomeNotFound:
        return nullcontext()
