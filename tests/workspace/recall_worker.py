"""A process of its own on an index for recall: `recall_worker.py PATH fill|search|full [GOAL]`."""

import json
import resource
import sys
from pathlib import Path

from outlast.store.contract.workspace import RecallIndex
from outlast.store.sqlite.recall import with_index
from outlast.workspace.recall import index as indexed
from outlast.workspace.recall.index import SearchResult
from outlast.workspace.recall.words import Document, query_of

CHUNK = 20


def document(key: int) -> Document:
    words = " ".join(f"{letter}{key % size}" for letter, size in zip("abcdef", (7, 11, 13, 9, 19, 5), strict=True))
    return Document("record", key, "note", f"entry {key} of the log, topic{key % 7}: {words}", source=f"run {key % 3}")


def fill(index: RecallIndex, upto: int) -> None:
    """Take in what is missing, in small steps, saying each."""
    while (mark := index.mark("record")) < upto:
        indexed.add(index, "record", map(document, range(mark + 1, mark + 1 + CHUNK)), upto=mark + CHUNK)
        print(mark + CHUNK, flush=True)


def search(index: RecallIndex, goal: str) -> SearchResult:
    fill(index, 200)
    return indexed.search(index, query_of(goal))


def main(path: Path, verb: str, goal: str = "") -> None:
    if verb == "fill":
        with_index(path, lambda index: fill(index, 1_000_000))
    if verb == "full":  # no file may grow beyond this: the disk is full for us
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    found = with_index(path, lambda index: (index.lasting, search(index, goal)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
