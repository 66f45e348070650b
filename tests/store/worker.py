"""A process of its own on a store: `worker.py KIND PLACE NAME COUNT` makes runs and appends to one of them."""

import json
import sys
from pathlib import Path

from outlast.ledger.journal import Header, Payload, entry, genesis
from outlast.store import open as open_store
from outlast.store import url_of
from outlast.store.contract import NewRun, Store


def opened(kind: str, place: str) -> Store:
    if kind == "sqlite":
        return open_store(url_of(Path(place))).store
    given = json.loads(place)
    return open_store(given["url"], tenant=given["tenant"], blobs=Path(given["blobs"])).store


def main(kind: str, place: str, name: str, count: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    store = opened(kind, place)

    def run(run_id: str) -> NewRun:
        return NewRun(run_id, "default", "m:flow", run_id, "{}", "digest", "", "", "", "{}", "local", 1)

    hold = store.write(lambda tx: tx.add_run(run(name), genesis(name, "m:flow", name, "digest"), name))
    for number in range(count):
        header = Header("step", "fetch", inputs=f"in{number}", attempt=1, status="succeeded", delivered=True)
        store.finish(store.put(hold, [entry(header, Payload(facts=number))]))
        if number % 20 == 0:
            other = f"{name}-{number}"
            store.write(lambda tx, o=other: tx.add_run(run(o), genesis(o, "m:flow", o, "digest"), name))
            store.read(lambda look: look.newest_runs(None, 5, 0))
    store.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
