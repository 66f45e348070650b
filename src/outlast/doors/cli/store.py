"""`outlast handoff store` and `lint`: a contract for whoever continues, and what would make it better.

The fields of a handoff on the command line: options, files, and one JSON object, turned into what the core takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import REFUSED
from outlast.doors.cli.handoff import bound_to, checks_shown, command_for, outcome_of, say_lint
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.options import anchor_argument, content, refuse_if, revision_of, strictly, text_of
from outlast.doors.cli.render import facts, say
from outlast.errors import HandoffInvalid, HandoffNotFound, HomeNotFound
from outlast.values.text import nearest

if TYPE_CHECKING:
    from outlast import Handoff, Lint, Outlast
    from outlast.python.handoffs import Handoffs


# The name of each option's value, and of the field that it is.
TEXTS = ("summary", "next_action", "symbol", "risk", "handoff_kind", "expires", "supersedes")
MUSTS = ("must_change", "must_remove", "must_keep")
FORMS = ("acceptance_checks", *MUSTS, "rollback")
FILES = ("target_files", "creates", "environment")
PACKETS = ("execution_state_v1", "execution_packet_v1")
HOW = ("strict", "redact", "bind", "baseline")
GIVEN_TO_STORE = ("expected_revision", "operation_id", "tenant_id", "scope", "actor")
document_option = click.option("--from", "document", metavar="@FILE", help="All fields as one JSON object, or -.")


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
        fields["handoff_text"] = text_of(given["handoff_text"], "--text")
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


def form_of(text: str) -> str | dict[str, Any]:
    """A check, must or rollback: an object where it is JSON, else the text. `{ make; }` is a command."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        form: dict[str, Any] = strictly(text)
    except ValueError as error:
        if text.lstrip()[1:].lstrip().startswith('"'):
            raise click.UsageError(f"{text!r} looks like a JSON object but is none: {error}") from error
        return text
    return form


def _document(word: str) -> dict[str, Any]:
    """The fields of one JSON object; packets as the bytes they have in it. Raises HandoffInvalid for an unknown one."""
    import msgspec

    refuse_if(word != "-" and not word.startswith("@"), f"--from takes @FILE or -, not {word!r}")
    try:
        given = msgspec.json.decode(content(word, "--from", stdin=True), type=dict[str, msgspec.Raw])
        fields = {name: _value(name, raw) for name, raw in given.items()}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.UsageError(f"--from: it is not one JSON object: {error}") from error
    known = [*late.outlast.Contract.__struct_fields__, *GIVEN_TO_STORE]
    for name in fields:
        if name not in known:
            raise HandoffInvalid(name[:100], "is no field of a handoff", nearest(name, known, "the fields are"))
    return fields


def _value(name: str, raw: bytes) -> Any:
    text = bytes(raw).strip()
    return text if name in PACKETS and text.startswith(b"{") else strictly(text)


@command("store", of="handoff_store", as_given=True)
@anchor_argument(metavar="[ANCHOR]", required=False)
@document_option
@click.option("--again", is_flag=True, help="What is not given is as in the newest revision.")
def store(call: Invocation, again: bool, **given: Any) -> None:
    """Store the next revision of a handoff under ANCHOR, durable when this returns.

    Files are named from the current folder. --file, --check and the musts may be repeated; of --check and the musts
    a JSON object is taken as the object form: '{"run": "make", "cwd": "ui"}', '{"file": "a.py", "contains": "x"}'.
    """
    fields = fields_of(given)
    said = {name: given.get(name) for name in (*GIVEN_TO_STORE, "claim_id")}
    said |= {"scope": call.scope, "actor": call.actor}
    fields |= {name: value for name, value in said.items() if value is not None}
    options = {name: given[name] for name in HOW}
    fields = fields if again else _whole(fields)
    with call.open(make=not again) as outlast:
        fields |= files_of(outlast.handoff, given, fields.get("repo_root"))
        fields = _whole(_again(outlast, fields, given)) if again else fields
        with checks_shown(call, outlast):
            stored = outlast.handoff.store(**fields, **options)
        if call.json:
            call.tell(stored)
        else:
            _say_stored(call, outlast, stored)


def _again(outlast: Outlast, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The fields, those that were not given as in the newest revision; only that one, if nobody stores meanwhile."""
    refuse_if("anchor" not in fields, "ANCHOR is missing: --again is about one that was stored")
    was = outlast.handoff._get(anchor=fields["anchor"])  # nobody is shown it: that is not to have looked at it
    kept = {name: getattr(was, name) for name in late.outlast.Contract.__struct_fields__ if name != "repo_root"}
    if given["handoff_text"] is None and given["document"] is None and was.handoff_text != was.next_action:
        fields.pop("handoff_text", None)  # which was made of the next action only
    return kept | {"expected_revision": was.revision} | fields


def _whole(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if those are there that every handoff has."""
    refuse_if("anchor" not in fields, "ANCHOR is missing: the name that the handoff is recovered by")
    refuse_silence(fields, "what this is about")
    for name in ("operation_id", "tenant_id"):
        refuse_if(not isinstance(fields.get(name), str | None), f"--from: {name} is no text")
    return fields


def refuse_silence(fields: Mapping[str, Any], about: str) -> None:
    """Raise UsageError where the fields say nothing of the work, which is what it is `about`, or of how to go on."""
    refuse_if("summary" not in fields, f"-m TEXT is missing: {about}, in a sentence")
    ways = "--next TEXT, --text TEXT, --text @FILE, or --text - for standard input"
    refuse_if("handoff_text" not in fields, f"nothing says how to go on: {ways}")


def _say_stored(call: Invocation, outlast: Outlast, stored: Handoff) -> None:
    what = "was stored already" if stored.replayed else "stored"
    say(f"{stored.anchor}@{stored.revision} {what}" + (", opened again" if stored.reopened else ""), "green")
    say_lint(stored.lint)
    bound = [("bound to", bound_to(stored.binding)), ("not kept", outlast.handoff.not_kept(stored))]
    stays = ("stays behind", stored.binding.stays_behind if stored.binding else "")
    facts(("id", stored.id), *bound, stays, ("masked", ", ".join(stored.masked)))
    for each in stored.baseline:
        say(f"check {each.label}: {outcome_of(each)}")
    for rival in outlast.handoff.rivals(stored):
        say(f"rival {rival.subject}: {rival.found}; whoever recovers it is told so", "yellow")
        say(f"  {call.pasted(rival.advice)}")
    there = call.within(stored.scope)
    say(f"recover it: {command_for(there, 'recover', stored.anchor)}")


@command("lint", of="handoff_lint", as_given=True)
@anchor_argument(metavar="[ANCHOR]", required=False)
@document_option
def lint(call: Invocation, **given: Any) -> int:
    """What would make a handoff better, with better wordings. Nothing is stored.

    With ANCHOR alone: of the handoff stored there. Exits 4 when it is weak.
    """
    is_alone = given["anchor"] is not None and not any(value for name, value in given.items() if name != "anchor")
    found = _lint_stored(call, given["anchor"]) if is_alone else _lint_given(call, given)
    return call.tell_or_say(found, lambda: say_lint(found), code=REFUSED if found.weak else 0)


def _lint_stored(call: Invocation, word: str) -> Lint:
    with call.open() as outlast:
        anchor, revision = revision_of(outlast, word)
        try:
            return outlast.handoff.get(anchor=anchor, revision=revision).lint
        except HandoffNotFound:  # nobody stored it: its task may have a run
            return outlast.handoff.recover(anchor, revision=revision).handoff.lint


def _lint_given(call: Invocation, given: dict[str, Any]) -> Lint:
    """Of fields, which need no home: without one, files are called as they are."""
    fields = fields_of(given)
    with _home(call) as outlast:
        fields |= files_of(outlast.handoff if outlast else None, given, fields.get("repo_root"))
    return late.handoffs.lint_fields({name: value for name, value in fields.items() if name not in GIVEN_TO_STORE})


def _home(call: Invocation) -> Any:
    try:
        return call.open()
    except HomeNotFound:
        return nullcontext()
