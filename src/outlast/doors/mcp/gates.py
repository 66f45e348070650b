"""Gates: what a model may not do in a person's place, and how a person is asked in the middle of a call.

Over stdio a model approves, skips, accepts, takes over and overrides only if it was started with `--allow-approve`.
Else such a call is put to the person at the client, if the client can ask (elicitation), and refused if it cannot.
The newer revision of the protocol asks by the result of the call, which is then made again with the answer; the older
one by a request of its own. What is asked is bound to the call and to what the wait shows, so that no answer counts
for anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import mcp_types as types
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import UNSET

from outlast.doors.mcp.client import McpClient, Tool
from outlast.doors.mcp.texts import inline
from outlast.errors import AnswerInvalid, Forbidden
from outlast.operations.operation import fields_of
from outlast.values.codec import identity, jsonable
from outlast.values.text import shorten

if TYPE_CHECKING:
    from outlast import Interrupt

Stands = Literal["open", "ask", "shut"]
LONGEST = 8_000  # characters of what is shown to a person
HOW = "a person decides: `outlast inbox` shows how; or the server is started with --allow-approve"
_PLAIN = {"string", "integer", "number", "boolean"}
_KEPT = ("type", "title", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "default")
_FORMATS = ("email", "uri", "date", "date-time")


class Asking(NamedTuple):
    """What a person is asked: the words, the form, and what the call is with their answer."""

    key: str  # of this call and of what is shown with it
    message: str
    form: dict[str, Any]
    answered: Callable[[dict[str, Any]], Any]


def elicits(capabilities: types.ClientCapabilities | None) -> bool:
    """Whether the client can put a form to its user."""
    found = capabilities.elicitation if capabilities is not None else None
    return found is not None and (found.form is not None or found.url is None)


def refusal(tool: Tool) -> Forbidden:
    """What is told to a model that may not do this."""
    return Forbidden(f"{tool.name} gets past a gate here, which is for a person", HOW)


async def asked(ctx: Any, params: types.CallToolRequestParams, asking: Asking) -> Any | types.InputRequiredResult:
    """The call with a person's answer, or the result by which the client asks. Raises Forbidden."""
    form = types.ElicitRequestFormParams(message=asking.message, requested_schema=asking.form)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        said = (params.input_responses or {}).get(asking.key)
        if said is None:
            return types.InputRequiredResult(input_requests={asking.key: types.ElicitRequest(params=form)})
    else:
        said = await ctx.session.elicit_form(asking.message, asking.form, ctx.request_id)
    if not isinstance(said, types.ElicitResult) or said.action != "accept":
        raise Forbidden("the user was asked and did not agree", "leave it as it is, and tell the user how it stands")
    return asking.answered(dict(said.content or {}))


# -- what is asked -------------------------------------------------------------------------------------


def asking_for(client: McpClient, tool: Tool, given: Any) -> Asking | None:
    """What to ask before this call is made; None where the call itself says what is wrong with it."""
    if tool.name == "interrupt_answer":
        wait = client.outlast.interrupt(given.interrupt_id)
        return _question(tool, given, wait) if wait.status == "open" and wait.type != "signal" else None
    said = {name: value for name, value in _said(given).items() if name != "operation_id"}
    shown = "\n".join(f"- {name}: {inline(jsonable(value), 2_000)}" for name, value in said.items())
    message = f"The model asks to get past a gate: {tool.title} ({tool.name})\n{shown}"
    form = _form({"agree": {"type": "boolean", "title": "Do you agree?"}}, ["agree"])
    return Asking(_key(tool, given, ""), shorten(message, LONGEST), form, lambda content: _agreed(given, content))


def _agreed(given: Any, content: dict[str, Any]) -> Any:
    if content.get("agree") is not True:
        raise Forbidden("the user was asked and did not agree", "leave it as it is, and tell the user how it stands")
    return given


def _question(tool: Tool, given: Any, wait: Interrupt) -> Asking:
    """The question of a wait, put to the person as the flow put it. The model's answer is only a proposal."""
    message = "\n".join(
        (
            f"Run {wait.run_id} asks: {inline(wait.says, 2_000)}",
            f"Shown with it: {inline(wait.payload, 4_000)}" if wait.payload else "Nothing is shown with it.",
            f"The model proposes: {inline(given.answer, 1_000)}",
        )
    )

    def answered(content: dict[str, Any]) -> Any:
        said = {name: value for name, value in content.items() if value not in (None, "")}
        return msgspec.structs.replace(given, interrupt_id=wait.id, answer=_answer(wait, said), shown=wait.digest)

    return Asking(_key(tool, given, wait.digest), shorten(message, LONGEST), _form_of(wait), answered)


def _key(tool: Tool, given: Any, shown: str) -> str:
    """The name of a question: another call, or another thing shown, has another one."""
    return f"gate-{identity(json.dumps([tool.name, jsonable(_said(given)), shown]).encode())[:24]}"


def _said(given: Any) -> dict[str, Any]:
    """What a call says, but for what says nothing."""
    return {name: value for name, value in fields_of(given).items() if value not in (None, (), "", False, UNSET)}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _form_of(wait: Interrupt) -> dict[str, Any]:
    """What the person fills in: flat fields, which is all that forms of the protocol have."""
    text = {"type": "string"}
    if wait.choices:
        more = {"result": {**text, "description": "With skip: its result, as JSON."}} if "skip" in wait.choices else {}
        return _form({"choice": {**text, "enum": list(wait.choices)}, "why": text, **more}, ["choice"])
    if wait.type == "approval":
        return _form({"approved": {"type": "boolean", "title": "Do you approve?"}, "comment": text}, ["approved"])
    if _is_flat(wait.schema):
        assert wait.schema is not None
        fields = {name: _field(each) for name, each in wait.schema.get("properties", {}).items()}
        return _form(fields, list(wait.schema.get("required", ())))
    fits = f" that fits {inline(wait.schema, 2_000)}" if wait.schema else ""
    return _form({"answer": {**text, "description": f"The answer, as JSON{fits}."}}, ["answer"])


def _is_flat(schema: dict[str, Any] | None) -> bool:
    fields = (schema or {}).get("properties", {})
    return bool(fields) and all(each.get("type") in _PLAIN or _words(each) for each in fields.values())


def _words(field: dict[str, Any]) -> bool:
    return bool(field.get("enum")) and all(isinstance(word, str) for word in field["enum"])


def _field(field: dict[str, Any]) -> dict[str, Any]:
    """A field as a form may have it. What the form cannot say is checked when it is answered."""
    kept = {name: field[name] for name in _KEPT if name in field}
    if field.get("format") in _FORMATS:
        kept["format"] = field["format"]
    return {"type": "string", **kept}


def _answer(wait: Interrupt, content: dict[str, Any]) -> Any:
    if wait.choices:
        result = {"result": _json(wait, content.pop("result", "null"))} if content.get("choice") == "skip" else {}
        return {name: value for name, value in content.items() if name != "result"} | result
    if wait.type == "approval" or _is_flat(wait.schema):
        return content
    return _json(wait, content.get("answer"))


def _json(wait: Interrupt, text: Any) -> Any:
    try:
        return json.loads(str(text))
    except ValueError as error:
        raise AnswerInvalid(wait.id, f"it is no JSON: {error}", "JSON") from error
