"""The URIs of resources: `handoff://{scope}/{anchor}`, `artifact://{ref}`, `run://{run_id}`. Pure."""

from __future__ import annotations

from urllib.parse import quote, unquote

HANDOFF, ARTIFACT, RUN = "handoff://{scope}/{anchor}", "artifact://{ref}", "run://{run_id}"


def handoff_uri(scope: str, anchor: str) -> str:
    return f"handoff://{quote(scope, safe='')}/{quote(anchor, safe='')}"


def artifact_uri(ref: str) -> str:
    return f"artifact://{quote(ref, safe='')}"


def run_uri(run_id: str) -> str:
    return f"run://{quote(run_id, safe='')}"


def parsed(uri: str) -> tuple[str, tuple[str, ...]] | None:
    """The kind of a resource and its names; None when it is none of ours."""
    kind, _, rest = uri.partition("://")
    match kind.lower():
        case "handoff" if "/" in rest:
            scope, _, anchor = rest.partition("/")
            return ("handoff", (unquote(scope), unquote(anchor))) if scope and anchor else None
        case "artifact" if rest:
            return "artifact", (unquote(rest),)
        case "run" if rest:
            return "run", (unquote(rest),)
    return None
