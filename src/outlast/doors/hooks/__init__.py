"""Hooks: a coding agent's session that ends, compacts or dies leaves a handoff, and the next one starts from it.

`fire.py` is what a client calls. It only notes the event (`spool.py`) and lets a process of its own store it
(`leave.py`), so that nobody waits; only a start (`start.py`) answers. Nothing here may fail or hold up the agent.

What runs in the client's own time imports as little as it can: neither click nor the runtime.
"""
