"""Every table of the file is proven, chained, or named here with why it is not."""

import re

from outlast.store.contract import PROVEN
from outlast.store.nouns.rows import ROW_NAMES, migrations

CHAINED = {"journal", "messages", "memos", "task_events"}  # each entry has the hash of the one before
NOT_PROVEN = {
    "proofs": "they are the proofs",
    "blob_refs": "derived from entries, and compared with them",
    "artifact_blobs": "derived from artifacts, and compared with them",
    "handoff_files": "derived from the newest revision, and compared with it",
    "artifact_tags": "derived from artifacts, and compared with them",
    "record_tags": "derived from records, and compared with them",
    "run_tags": "derived from the first entry of a run, and compared with it",
    "contents": "each is named by its digest, and compared with it",
    "queues": "they say when runs are taken, and nothing of what these do",
    "queue_entries": "as queues",
    "queue_begun": "as queues",
    "run_deadlines": "read from the code whenever a run begins or goes on; here for who looks",
    "limits": "they say when steps begin, and nothing of what these do",
    "limit_slots": "as limits",
    "workers": "who is at work, for who looks",
    "told": "it says when a message is sent again, and nothing of what happened",
    "record_refs": "derived from records, and compared with them",
}


def test_what_is_proven_is_what_verify_looks_at() -> None:
    assert set(ROW_NAMES) == set(PROVEN)


def test_no_table_is_forgotten() -> None:
    text = "\n".join(text for _, text in migrations("sqlite"))
    tables = set(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE))
    assert tables - set(PROVEN) - CHAINED == set(NOT_PROVEN) & tables
    assert set(NOT_PROVEN) <= tables
