"""MCP: Outlast for a model that calls tools, over stdio (`outlast mcp`) and at `/mcp` of the server.

    tools.py       every tool: what it takes, does and gives, in words for a model; those about runs in runs.py
    client.py      what a tool works with, takes and gives; unknown arguments are refused, not dropped
    texts.py       results and errors as a model reads them: the verdict first, then the reading order
    resources.py   handoff://, artifact:// and run://, and the prompt `resume`
    server.py      all of it as an MCP server over an `Outlast`; stdio.py carries it, and `http/mcp.py` of the server

Only resources.py, gates.py, server.py and stdio.py import the `mcp` package, which the extra `mcp` brings.
"""

from __future__ import annotations

from importlib.util import find_spec


def require() -> None:
    """Raises ExtraMissing unless the packages that MCP needs are installed."""
    from outlast.errors import ExtraMissing

    if find_spec("mcp") is None:
        raise ExtraMissing("MCP", "mcp")
