"""How it is reached: HTTP, the command line, MCP, hooks."""
