"""Which damage is done: a wrong value in every column of every table, rows that are gone, doubled or swapped, and more.

Each is a name and a script for another process. What is drawn is the same for the same seed.
"""

import random
from collections.abc import Iterator

import apsw

from outlast.store.nouns.rows import schema

Corruption = tuple[str, str]  # its name, and the statements
BAD_TEXT = "CAST(x'6166ff' AS TEXT)"
VALUES = {
    "TEXT": {
        "other": "'other'",
        "bytes": BAD_TEXT,
        "json": "'{\"a\":'",
        "number": "'7'",
        "empty": "''",
        "null": "NULL",
    },
    "INTEGER": {"more": "{0} + 1", "less": "{0} - 1", "huge": "4611686018427387904", "minus": "-1", "null": "NULL"},
    "BLOB": {"zeros": "zeroblob(32)", "short": "x'00'", "null": "NULL"},
    "REAL": {"more": "{0} + 1", "huge": "1e300", "null": "NULL"},
}
UNIQUE = ("id", "subject", "name", "anchor", "task", "path", "tag", "ref")
RELAX = (
    "PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON;"
    "UPDATE sqlite_schema SET sql = replace(replace(sql, ' NOT NULL', ''), ') STRICT', ')') WHERE name = '{table}';"
    "PRAGMA writable_schema = RESET;"
)
LAX = "PRAGMA ignore_check_constraints = ON;"
NO = """'{"approved":false}'"""

SPECIAL: list[Corruption] = [
    ("runs.mark is no mark", "UPDATE runs SET mark = 4 WHERE task = 'loop'"),
    ("runs.mark of another run", "UPDATE runs SET mark = 3 WHERE task = 'asked'"),
    ("runs.status finished", "UPDATE runs SET status = 'succeeded' WHERE task = 'asked'"),
    ("runs.status reopened", "UPDATE runs SET status = 'failed' WHERE task = 'small'"),
    ("runs.status back", "UPDATE runs SET status = 'running' WHERE task = 'failing'"),
    ("runs.error gone", "UPDATE runs SET error = NULL WHERE task = 'failing'"),
    ("runs.error other", """UPDATE runs SET error = '{"type":"x","message":"y"}' WHERE task = 'failing'"""),
    ("runs.result other", """UPDATE runs SET result = '{"value":4}' WHERE task = 'small'"""),
    ("runs.seal", "UPDATE runs SET seal = 'copy' WHERE task = 'asked'"),
    ("runs.scope", "UPDATE runs SET scope = 'elsewhere' WHERE task = 'small'"),
    ("chains.epoch back", "UPDATE chains SET epoch = epoch - 1 WHERE subject LIKE 'run:%'"),
    ("chains.epoch zero", "UPDATE chains SET epoch = 0"),
    ("chains.head back", "UPDATE chains SET head = head - 1"),
    ("chains.hash of the entry before", "UPDATE chains SET (head, hash) = (SELECT seq, hash FROM journal j JOIN runs r"
     " ON r.key = j.chain WHERE 'run:' || r.id = subject AND j.seq = head - 1) WHERE subject LIKE 'run:%'"),
    ("interrupts.answer other", f"UPDATE interrupts SET answer = {NO} WHERE status = 'answered'"),
    ("interrupts.answer of a used one", f"UPDATE interrupts SET answer = {NO} WHERE status = 'used'"),
    ("interrupts.answered_by", "UPDATE interrupts SET answered_by = 'boss' WHERE status IN ('answered', 'used')"),
    ("interrupts answered by nobody", "UPDATE interrupts SET status = 'answered', answer = '{\"approved\":true}'"
     " WHERE status = 'open' AND type = 'approval'"),
    ("interrupts.payload", """UPDATE interrupts SET payload = '{"question":"pay?"}' WHERE status = 'open'"""),
    ("interrupts.due_at", "UPDATE interrupts SET due_at = 1 WHERE status = 'open'"),
    ("interrupts.due_at gone", "UPDATE interrupts SET due_at = NULL"),
    ("interrupts moved", "UPDATE interrupts SET run = (SELECT max(key) FROM runs) WHERE status = 'open'"),
    ("interrupts closed", "UPDATE interrupts SET status = 'used' WHERE status = 'open'"),
    ("interrupts opened again", "UPDATE interrupts SET status = 'open' WHERE status = 'used' AND type = 'approval'"),
    ("interrupts gone", "DELETE FROM interrupts WHERE status = 'open'"),
    ("inbox taken", "UPDATE inbox SET taken = 1"),
    ("inbox.body", """UPDATE inbox SET body = '{"call":["","send","x",0],"kind":"effect","to":1,"why":""}'"""),
    ("signals taken", "UPDATE signals SET taken = 'x' WHERE taken = ''"),
    ("signals given back", "UPDATE signals SET taken = ''"),
    ("signals.body", "UPDATE signals SET body = '{\"n\":3}'"),
    ("journal: one entry gone", "DELETE FROM journal WHERE seq = 2 AND chain = 1"),
    ("journal: the last entry gone",
     "DELETE FROM journal WHERE (chain, seq) IN (SELECT 1, max(seq) FROM journal WHERE chain = 1)"),
    ("journal: entries swapped", "UPDATE journal SET (header, payload) = (SELECT o.header, o.payload FROM journal o"
     " WHERE o.chain = 1 AND o.seq = 5 - journal.seq) WHERE chain = 1 AND seq IN (2, 3)"),
    ("journal: a payload of no JSON", "UPDATE journal SET payload = x'7b' WHERE chain = 1 AND seq = 1"),
    ("checkpoints gone", "DELETE FROM checkpoints"),
    ("checkpoints gone from the order too",
     "DELETE FROM workspace_shown WHERE noun = 'checkpoint'; DELETE FROM checkpoints"),
    ("records pinned", "UPDATE records SET pinned = 1 - pinned"),
    ("artifacts hidden", "UPDATE artifacts SET pending = 9"),
    ("artifact numbers", "UPDATE artifact_names SET highest = 1"),
    ("artifact newest", "UPDATE artifact_names SET newest = 1 WHERE name = 'notes'"),
    ("artifacts.version", "UPDATE artifacts SET version = version + 7"),
    ("links turned", "UPDATE links SET source = target, target = source"),
    ("sessions.head back", "UPDATE sessions SET head = head - 1"),
    ("messages: the last gone", "DELETE FROM messages WHERE seq = 3"),
    ("tasks.state", "UPDATE tasks SET state = 'completed'"),
    ("tasks.head back", "UPDATE tasks SET head = head - 1"),
    ("anchors.status", "UPDATE anchors SET status = 'finished', outcome = 'completed'"),
    ("anchors.revision back", "UPDATE anchors SET revision = 1 WHERE anchor = 'task:one'"),
    ("operations.answer", "UPDATE operations SET answer = '{}'"),
    ("operations gone", "DELETE FROM operations"),
    ("tombstones gone", "DELETE FROM tombstones"),
    ("proofs gone", "DELETE FROM proofs"),
    ("proofs changed", "UPDATE proofs SET proof = zeroblob(16) WHERE noun = 'signals'"),
    ("a trigger", "CREATE TRIGGER sly AFTER INSERT ON journal BEGIN DELETE FROM inbox; END"),
    ("a view", "CREATE VIEW sly AS SELECT * FROM runs"),
    ("a table", "CREATE TABLE sly (a)"),
    ("an index gone", "DROP INDEX one_unfinished_run"),
    ("an index more", "CREATE INDEX sly ON runs (actor)"),
    ("a table gone", "DROP TABLE signals"),
    ("a column more", "ALTER TABLE tasks ADD COLUMN sly TEXT"),
]  # fmt: skip


def tables() -> dict[str, list[tuple[str, str]]]:
    """Every table, with its columns and their types."""
    made = apsw.Connection(":memory:")
    for _ in made.execute(schema("sqlite")):
        pass
    names = [str(name) for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return {
        name: [(str(row[1]), str(row[2])) for row in made.execute(f"PRAGMA table_info({name})")]
        for name in names
        if not name.startswith("sqlite_")
    }


def corruptions(seed: int) -> list[Corruption]:
    """All of it: a wrong value for every column, what may happen to rows, and what is worth a look of its own."""
    draw = random.Random(seed)
    found = [*SPECIAL, *_rows()]
    for table, columns in tables().items():
        for column, kind in columns:
            kinds = draw.sample(sorted(VALUES[kind]), 1)
            found += [(f"{table}.{column} {each}", _value(table, column, kind, each)) for each in kinds]
    draw.shuffle(found)
    return found


def _value(table: str, column: str, kind: str, each: str) -> str:
    relaxed = RELAX.format(table=table) if each == "null" else LAX
    value = VALUES[kind][each].replace("{0}", column)
    return f"{relaxed} UPDATE {table} SET {column} = {value} WHERE {_last(table)}"


def _last(table: str) -> str:
    """The row of a table that is damaged."""
    if table == "proofs":
        return "noun = 'runs' AND row = 2"
    return f"rowid = (SELECT max(rowid) FROM {table})"


def _rows() -> Iterator[Corruption]:
    for table, columns in tables().items():
        yield f"{table}: a row gone", f"DELETE FROM {table} WHERE {_last(table)}"
        if table == "proofs":
            continue
        yield f"{table}: a row twice", _twice(table, columns)


def _twice(table: str, columns: list[tuple[str, str]]) -> str:
    """The last row again, under a number of its own; where the table takes no second one, the next to last is lost."""
    own = [name for name, _ in columns if name not in ("key", "number")]
    changed = ", ".join(f"{name} || '-2'" if name in UNIQUE else name for name in own)
    return f"{LAX} INSERT OR REPLACE INTO {table} ({', '.join(own)}) SELECT {changed} FROM {table} WHERE {_last(table)}"
