"""The tools, resources and the prompt as an MCP server, over anything with the surface of `Outlast`.

It is the SDK's plain `Server`: its `MCPServer` drops unknown arguments and turns "5" into 5; we refuse both.
Every call runs in a thread of its own, so that the loop stays free; when its caller is gone it is asked to stop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from outlast.doors.mcp import gates, resources
from outlast.doors.mcp.client import McpClient, Tool, arguments_of, schema_of, told_once
from outlast.doors.mcp.gates import Stands
from outlast.doors.mcp.texts import ToolProblem, problem_of, unforeseen
from outlast.doors.mcp.tools import INSTRUCTIONS, TOOLS, call
from outlast.errors import HomeNotFound, NotFound, OutlastError
from outlast.python import rooms
from outlast.values.ambient import STOP, Noticing

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]
ClientOf = Callable[[Any, str, str], McpClient]  # the HTTP request or None, the role that is needed, what for
GateOf = Callable[[Context], Stands]  # how gates stand for who asks: called in a thread
GONE = -32002  # "resource not found", before 2026-07-28
FRESH = CacheHint(ttl_ms=300_000)
FOR_PEOPLE = frozenset(name for name, tool in TOOLS.items() if tool.gated)
log = logging.getLogger("outlast.doors.mcp")


def make_server(client_of: ClientOf, gate_of: GateOf, *, files: bool) -> Server[Any]:
    """An MCP server that answers at the client of whoever asks. `files`: a path means a file of theirs."""
    served = Served(client_of, gate_of, () if files else ("path",))
    return Server(
        "outlast",
        version=version("outlast"),
        title="Outlast",
        description="Agent work that outlasts its process: handoffs with a verdict, runs, waits, workspace, tasks.",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": FRESH, "prompts/list": FRESH, "resources/templates/list": FRESH},
        get_tool_input_schema=served.schemas.get,
        on_list_tools=served.list_tools,
        on_call_tool=served.call_tool,
        on_list_resources=served.list_resources,
        on_list_resource_templates=served.list_templates,
        on_read_resource=served.read_resource,
        on_list_prompts=served.list_prompts,
        on_get_prompt=served.get_prompt,
        on_completion=served.complete,
    )


class Served:
    """What is answered to each request."""

    def __init__(self, client_of: ClientOf, gate_of: GateOf, without: tuple[str, ...]) -> None:
        self.client_of, self.gate_of = client_of, gate_of
        self.schemas: dict[str, dict[str, Any]] = told_once(
            {name: schema_of(tool.takes, without) for name, tool in TOOLS.items()}
        )
        files = "path" not in without
        self.tools = [_listed(tool, self.schemas[name], files=files) for name, tool in TOOLS.items()]

    # -- tools -----------------------------------------------------------------------------------

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Those that who asks may use. What only a person may do is not shown where nobody could be asked."""
        shut = await aside(lambda: self.gate_of(ctx)) == "shut"
        return types.ListToolsResult(tools=[each for each in self.tools if not shut or each.name not in FOR_PEOPLE])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a tool; an error of ours is one, too, so that the model sees it."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise _wrong(f"unknown tool {params.name!r:.100}; the tools are: {', '.join(TOOLS)}")
        try:
            return await self._called(ctx, params, tool)
        except OutlastError as error:
            return _trouble(problem_of(error))
        except Exception as error:
            log.exception("tool %s failed", tool.name)
            return _trouble(unforeseen(error))

    async def _called(
        self, ctx: Context, params: types.CallToolRequestParams, tool: Tool
    ) -> types.CallToolResult | types.InputRequiredResult:
        given, client_of = arguments_of(tool.name, tool.takes, params.arguments or {}), self._client(ctx)
        gate: Stands = "open"
        if tool.operation.role_of(given) == "approve":
            gate = await aside(lambda: self.gate_of(ctx))
            if gate == "shut":
                client_of("approve", tool.name)  # who has a key is told which role it lacks
                raise gates.refusal(tool)
        if gate == "ask":
            asking = await aside(lambda: gates.asking_for(client_of("approve", tool.name), tool, given))
            decided = given if asking is None else await gates.asked(ctx, params, asking)
            if isinstance(decided, types.InputRequiredResult):
                return decided
            by_person = self._client(ctx, by_person=asking is not None)
            return await aside(lambda: _answered(tool, decided, by_person))
        return await aside(lambda: _answered(tool, given, client_of))

    def _client(self, ctx: Context, *, by_person: bool = False) -> Callable[[str, str], McpClient]:
        def found(role: str, what: str) -> McpClient:
            client = self.client_of(ctx.request, role, what)
            return replace(client, by_person=True) if by_person else client

        return found

    # -- resources -------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params else None
        nothing: tuple[list[types.Resource], str | None] = ([], None)
        found, after = await self._reads(ctx, lambda client: resources.listed(client.outlast, cursor), empty=nothing)
        return types.ListResourcesResult(resources=found, next_cursor=after)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        found = await self._reads(ctx, lambda client: resources.read(client, params.uri), uri=params.uri)
        return types.ReadResourceResult(contents=[*found])

    # -- the prompt ------------------------------------------------------------------------------

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        takes = [
            types.PromptArgument(name=name, description=says, required=name == "anchor")
            for name, says in resources.ARGUMENTS.items()
        ]
        listed = types.Prompt(
            name=resources.PROMPT, title="Resume work", description=resources.PROMPT_SAYS, arguments=takes
        )
        return types.ListPromptsResult(prompts=[listed])

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = dict(params.arguments or {})
        if params.name != resources.PROMPT:
            raise _wrong(f"unknown prompt {params.name!r:.100}; the prompt is {resources.PROMPT}")
        if unknown := [name for name in given if name not in resources.ARGUMENTS]:
            raise _wrong(f"{resources.PROMPT} takes no argument {unknown[0]!r:.100}; it takes: anchor, scope")
        if "anchor" not in given:
            raise _wrong(f"{resources.PROMPT} needs an anchor")
        text = await self._reads(
            ctx, lambda client: resources.resume_prompt(client, given["anchor"], given.get("scope")), "prompts"
        )
        said = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=f"Continue {given['anchor']}", messages=[said])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        asked = params.argument
        nothing: list[str] = []
        found = await self._reads(
            ctx, lambda client: resources.completed(client.outlast, asked.name, asked.value), empty=nothing
        )
        kept = types.Completion(values=found[:100], total=len(found), has_more=len(found) > 100)
        return types.CompleteResult(completion=kept)

    async def _reads(
        self,
        ctx: Context,
        look: Callable[[McpClient], T],
        what: str = "resources",
        *,
        uri: str | None = None,
        empty: T | None = None,
    ) -> T:
        """What the look gives; `empty` where there is no home. Raises MCPError with code, detail and advice as data."""
        try:
            return await aside(lambda: look(self.client_of(ctx.request, "read", what)))
        except OutlastError as error:
            if isinstance(error, HomeNotFound) and empty is not None:
                return empty
            raise _refusal(ctx, error, uri) from error


# -- work beside the loop ------------------------------------------------------------------------------


async def aside(work: Callable[[], T]) -> T:
    """The work in a thread of its own. Cancelled, it is asked to stop and no longer waited for."""
    gone = threading.Event()

    def stoppable() -> T:
        STOP.set(gone.is_set)
        return work()

    try:
        done: T = await rooms.call_async.in_thread(stoppable)
        return done
    except asyncio.CancelledError:
        gone.set()
        raise
    except Exception:
        raise
    except BaseException as error:  # what ends a flow's body must not end the server
        raise RuntimeError(f"the call ended with {type(error).__name__}") from error


# -- in the words of the protocol ----------------------------------------------------------------------


def _listed(tool: Tool, schema: dict[str, Any], *, files: bool) -> types.Tool:
    runs = tool.runs_code(files=files)
    hints = _hints(tool, runs)
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=schema, annotations=hints
    )


def _hints(tool: Tool, runs: bool) -> types.ToolAnnotations:
    """What a client asks its user about: whether a tool only reads, or may change anything anywhere."""
    if tool.operation.role == "read":
        return types.ToolAnnotations(read_only_hint=True, open_world_hint=False, idempotent_hint=True)
    if runs:
        return types.ToolAnnotations(destructive_hint=True, open_world_hint=True)
    again = True if tool.repeats else None
    return types.ToolAnnotations(destructive_hint=False, open_world_hint=False, idempotent_hint=again)


def _answered(tool: Tool, given: Any, client_of: Callable[[str, str], McpClient]) -> types.CallToolResult:
    """The answer; what was met on the way and is not what was stored is told beside it."""
    with Noticing() as damaged:
        answer = call(tool, given, client_of)
    texts = [answer.text, *("\n".join(damaged),) * bool(damaged)]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in texts], structured_content=answer.value
    )


def _trouble(problem: ToolProblem) -> types.CallToolResult:
    said = types.TextContent(type="text", text=problem.text)
    return types.CallToolResult(content=[said], structured_content=problem._asdict(), is_error=True)


def _wrong(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)


def _refusal(ctx: Context, error: OutlastError, uri: str | None) -> MCPError:
    problem = problem_of(error)
    gone = isinstance(error, NotFound) and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
    code = GONE if gone and uri is not None else types.INVALID_PARAMS
    return MCPError(code=code, message=problem.text, data=problem._asdict() | ({"uri": uri} if uri is not None else {}))
