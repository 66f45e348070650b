"""What the protocols declare is what every database has: nothing is missing, and nothing can be used beside them."""

import re
from inspect import getmembers, isfunction, signature
from pathlib import Path

import pytest

from outlast.store import contract, nouns
from outlast.store.contract.protocols.store import Reading, Writing
from outlast.store.postgres.transaction import PostgresReader, PostgresTransaction
from outlast.store.sqlite.transaction import StoreReader, Transaction

BY_DATABASE = {"append", "append_last"}  # what each does in its own way; all else is in `nouns/`


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [(Reading, StoreReader), (Reading, PostgresReader), (Writing, Transaction), (Writing, PostgresTransaction)],
)
def test_each_database_has_exactly_the_methods_that_the_protocols_declare(protocol: type, kind: type) -> None:
    of_nouns = [vars(each) for each in kind.__mro__ if each.__module__.startswith(nouns.__name__)]
    public = {name for each in of_nouns for name in each if name[0] != "_"} | BY_DATABASE & {*dir(kind)}
    declared = {name: signature(method) for name, method in getmembers(protocol, isfunction)}
    assert public == declared.keys()
    assert {name: signature(getattr(kind, name)) for name in public} == declared


def test_the_protocols_know_nothing_of_what_keeps_to_them() -> None:
    files = Path(contract.__file__).parent.glob("*.py")
    found = {
        file.name: re.findall(r"(?:from|import) (outlast\.store(?!\.contract).*)", file.read_text()) for file in files
    }
    assert {name: rooms for name, rooms in found.items() if rooms} == {}
