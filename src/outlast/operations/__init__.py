"""Every operation, declared once: what HTTP, OpenAPI, MCP and the client are made of. `operation.py` says how."""
