"""A server to measure, in a process of its own: `http_server.py bare|ours FOLDER`. Says its address when ready."""

import sys
from pathlib import Path


def bare(folder: Path) -> None:
    """FastAPI as its docs have it, and one synced commit of the body: the least that a durable store can do."""
    import apsw
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    from outlast.doors.http.identity import address_of, listen

    class Handoff(BaseModel):
        scope: str
        anchor: str
        summary: str
        handoff_text: str
        target_files: list[str]
        next_action: str
        acceptance_checks: list[str]

    connection = apsw.Connection(str(folder / "bare.db"))
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", "FULL")
    connection.execute("CREATE TABLE handoff (anchor TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT")
    app = FastAPI()

    async def store(handoff: Handoff) -> Handoff:
        body = handoff.model_dump_json().encode()
        connection.execute("INSERT INTO handoff VALUES (?, ?)", (handoff.anchor, body))
        return handoff

    app.post("/v1/handoff/store", response_model=Handoff)(store)
    opened = listen("127.0.0.1", 0)
    print(address_of(opened), flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([opened])


def ours(folder: Path) -> None:
    """`outlast serve`, its log thrown away."""
    from outlast.doors.http.identity import address_of, listen
    from outlast.doors.http.serve import Server
    from outlast.doors.http.state import ServerSettings

    opened = listen("127.0.0.1", 0)
    settings = ServerSettings(home=folder / "home", log=lambda line: None)
    Server(settings, opened, lambda: print(address_of(opened), flush=True)).serve_all()


if __name__ == "__main__":
    {"bare": bare, "ours": ours}[sys.argv[1]](Path(sys.argv[2]))
