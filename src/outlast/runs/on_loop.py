"""What is written from an event loop: queued with what other runs write, and awaited while the loop goes on.

What is queued will be written, whoever still waits for it: a task that is cancelled meanwhile is cancelled once that is
known, so that nothing of a run is left behind that nobody knows of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.values.late import late

if TYPE_CHECKING:
    import asyncio

    from outlast.store.contract import Store, Ticket
else:
    asyncio = late("asyncio")


async def finish(store: Store, ticket: Ticket) -> tuple[Any, asyncio.CancelledError | None]:
    """What the queued work gives, once it is durable; and what this task was cancelled by meanwhile. Raises as it."""
    soon = store.finish_soon(ticket)
    cancelled: asyncio.CancelledError | None = None
    if soon is not None:
        later = asyncio.ensure_future(soon)
        while not later.done():
            try:
                await asyncio.wait([later])
            except asyncio.CancelledError as error:
                cancelled = error
        later.exception()  # noted: it is raised by who is asked for the result
    return store.finish(ticket), cancelled
