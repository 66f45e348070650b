"""What can be read by a URI, and the prompt `resume`: the whole of what results show in part."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import mcp_types as types
import msgspec

from outlast.doors.mcp.client import ARTIFACT, HANDOFF, RUN, McpClient, artifact_uri, handoff_uri, parsed, told, uri_of
from outlast.doors.mcp.runs import shown
from outlast.doors.mcp.texts import recovered_text
from outlast.errors import NotFound, ValueRefused
from outlast.operations.reading import prompt

if TYPE_CHECKING:
    from outlast.operations.workspace import Artifact
    from outlast.python.outlast import Outlast

LARGEST = 4 * 1024 * 1024  # bytes of an artifact that is handed over in one message
PAGE = 50
Content = types.TextResourceContents | types.BlobResourceContents
EVERY = 1_000_000_000
MARKDOWN, JSON = "text/markdown", "application/json"
TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml", "application/toml", "application/x-")


class ResourceNotFound(NotFound):
    """Raised when a URI is none of ours."""

    says = "{uri!r} is no resource of this server"
    advice = "they are {known}, each name percent-encoded"

    def __init__(self, uri: str) -> None:
        super().__init__(uri=uri, known=f"{HANDOFF}, {ARTIFACT} and {RUN}")


TEMPLATES = [
    types.ResourceTemplate(
        uri_template=HANDOFF,
        name="handoff",
        title="A handoff",
        description="The newest handoff under an anchor, whole: first as text with its verdict here and now, then as "
        "JSON. Read it to get what a tool left out. It claims nothing; handoff_recover with claim=true does.",
    ),
    types.ResourceTemplate(
        uri_template=ARTIFACT,
        name="artifact",
        title="Saved content",
        description="The content of an artifact by its ref, such as artifact%3Adefault%2Freport.md%401: text, or "
        "base64 of what is no text. It is checked against what was saved. Up to 4 MiB.",
    ),
    types.ResourceTemplate(
        uri_template=RUN,
        name="run",
        title="A run",
        description="A run, whole: its verdict, what it waits for and every receipt, as text and as JSON. Read it to "
        "get what run_show left out.",
    ),
]

# -- reading -------------------------------------------------------------------------------------------


def read(client: McpClient, uri: str) -> list[Content]:
    """What the URI names, whole. Raises ResourceNotFound, and what the SDK raises."""
    match parsed(uri):
        case ("handoff", (scope, anchor)):
            got = client.outlast.handoff.recover(anchor, scope=scope, include_finished=True)
            data = msgspec.json.encode(told(got)).decode()
            return [_text(uri, MARKDOWN, prompt(got, EVERY, client.reach)), _text(uri, JSON, data)]
        case ("artifact", (ref,)):
            return [_artifact(client.outlast.workspace.get(ref), uri, ref)]
        case ("run", (run_id,)):
            text, value, _ = shown(client.outlast, run_id, EVERY)
            return [_text(uri, MARKDOWN, text), _text(uri, JSON, msgspec.json.encode(value).decode())]
        case _:
            raise ResourceNotFound(uri)


def _artifact(artifact: Artifact, uri: str, ref: str) -> Content:
    if artifact.size > LARGEST:
        why = f"it has {artifact.size:,} bytes; {LARGEST:,} are the most that is handed over in a message"
        raise ValueRefused(ref, why, f"have the user run `outlast workspace get {artifact.ref!r} -o FILE`")
    raw = artifact.read()
    if artifact.media_type.startswith(TEXTUAL):
        try:
            return _text(uri, artifact.media_type, raw.decode())
        except UnicodeDecodeError:
            pass  # it says that it is text and is none: bytes are never wrong
    blob = base64.b64encode(raw).decode()
    return types.BlobResourceContents(uri=uri, mime_type=artifact.media_type, blob=blob)


def _text(uri: str, media_type: str, text: str) -> Content:
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=text)


# -- listing -------------------------------------------------------------------------------------------


def listed(outlast: Outlast, cursor: str | None) -> tuple[list[types.Resource], str | None]:
    """A page of what can be read: handoffs that are not finished, then artifacts; and where the next page begins."""
    kind, _, place = (cursor or "handoffs:0").partition(":")
    if kind not in ("handoffs", "artifacts") or not place.isdecimal() or len(place) > 9:
        raise ValueRefused("cursor", f"{cursor!r:.100} is none of ours", "begin anew without a cursor")
    at = int(place)
    found = (_handoffs if kind == "handoffs" else _artifacts)(outlast, at + PAGE + 1)
    page = found[at : at + PAGE]
    if len(found) > at + PAGE:
        return page, f"{kind}:{at + PAGE}"
    return page, "artifacts:0" if kind == "handoffs" else None


def _handoffs(outlast: Outlast, limit: int) -> list[types.Resource]:
    return [
        types.Resource(
            uri=handoff_uri(each.scope, each.anchor),
            name=each.anchor,
            title=f"{each.anchor} ({each.standing})",
            description=f"Handoff, revision {each.revision}, {each.standing}, by {each.actor}: {each.summary}",
        )
        for each in outlast.handoff.list(limit=limit)
    ]


def _artifacts(outlast: Outlast, limit: int) -> list[types.Resource]:
    return [
        types.Resource(
            uri=artifact_uri(each.ref),
            name=each.ref,
            title=each.name,
            description=f"Artifact, version {each.version}" + (f": {each.summary}" if each.summary else ""),
            mime_type=each.media_type,
            size=each.size,
        )
        for each in outlast.workspace.list(limit=limit)
    ]


def completed(outlast: Outlast, name: str, begun: str) -> list[str]:
    """What an argument of a prompt or template may be, given its beginning."""
    match name:
        case "anchor":
            every = [each.anchor for each in outlast.handoff.list(limit=1_000)]
        case "ref":
            every = [each.ref for each in outlast.workspace.list(limit=1_000)]
        case "run_id":
            every = [each.id for each in outlast.runs(limit=1_000)]
        case _:
            every = []
    return [each for each in every if each.startswith(begun)]


# -- the prompt ----------------------------------------------------------------------------------------

PROMPT = "resume"
PROMPT_SAYS = (
    "Continue work that was handed over: the contract under an anchor in reading order, its verdict first, and what "
    "to do with it. Nothing is claimed or changed by getting it."
)
ARGUMENTS = {
    "anchor": "The handoff's name, such as task:export-repair.",
    "scope": "The namespace. Leave it out for the default one.",
}


def resume_prompt(client: McpClient, anchor: str, scope: str | None) -> str:
    """What a model is told when somebody asks it to continue."""
    got = client.outlast.handoff.recover(anchor, scope=scope)
    told = recovered_text(got, uri_of(got), None, client.reach)
    return f"{told}\n\nContinue this work. If the verdict is contested, say why and ask me before you go on."
