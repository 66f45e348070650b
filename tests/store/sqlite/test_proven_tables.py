"""Every table of the file is proven, chained, or named here with why it is not."""

import re

from outlast.store.contract import PROVEN
from outlast.store.sqlite.transaction import NAMES
from outlast.store.statements import schema

CHAINED = {"journal", "messages", "memos", "task_events"}  # each entry has the hash of the one before
NOT_PROVEN = {
    "proofs": "they are the proofs",
    "blob_refs": "derived from entries, and compared with them",
    "artifact_blobs": "derived from artifacts, and compared with them",
    "handoff_files": "derived from the newest revision, and compared with it",
    "artifact_tags": "derived from artifacts, and compared with them",
    "record_tags": "derived from records, and compared with them",
    "record_refs": "derived from records, and compared with them",
}


def test_what_is_proven_is_what_verify_looks_at() -> None:
    assert set(NAMES) == set(PROVEN)


def test_no_table_is_forgotten() -> None:
    tables = set(re.findall(r"^CREATE TABLE (\w+)", schema("sqlite"), re.MULTILINE))
    assert tables - set(PROVEN) - CHAINED == set(NOT_PROVEN) & tables
    assert set(NOT_PROVEN) <= tables
