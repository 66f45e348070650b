"""Receipts and events: one receipt per attempt, every entry an event."""

from hypothesis import given

from outlast.clock import moment
from outlast.ledger.journal import Header, Payload, decode_header, entry
from outlast.runs.call import labels
from outlast.runs.receipt import Attempts, events_of

from .stories import EFFECT, STEP, Story, attempt, chain, decision, fact, stories


@given(stories())
def test_there_is_one_receipt_per_attempt_with_its_last_status(story: Story) -> None:
    rows = story.rows
    receipts = list(Attempts("run", "flow", rows))
    wanted: dict[tuple[str, int], str] = {}
    names = labels(rows)
    for call, account in story.accounts.items():
        for number, status, _, mark in account.events:
            if not (mark == "decided" and status == "retry"):
                wanted[names[call], number] = status
    assert {(r.label, r.attempt): r.status for r in receipts} == wanted
    assert [r.seq for r in receipts] == sorted(r.seq for r in receipts)


@given(stories())
def test_every_entry_is_an_event_in_order(story: Story) -> None:
    rows = story.rows
    events = events_of("run", rows)
    assert [event.seq for event in events] == [row.seq for row in rows]
    assert all(event.kind == "fact" and event.name for event in events)


def test_a_receipt_shows_what_its_entry_holds() -> None:
    header = Header(
        "effect", "publish", "left/", "=id", 1, 2, "succeeded", True, "confirmed", "writer", 5, 9, "key", "code", 3,
        "trace", "digest",
    )  # fmt: skip
    payload = Payload(artifacts=["blob:1"], done="published", next="mail it")
    (row,) = chain([entry(header, payload)])
    (receipt,) = Attempts("run", "m:flow", [row])
    assert (receipt.run_id, receipt.flow, receipt.step, receipt.label) == ("run", "m:flow", "publish", "left/publish")
    assert (receipt.scope, receipt.occurrence, receipt.attempt, receipt.seq) == ("left/", 1, 2, 1)
    assert (receipt.started_at, receipt.ended_at) == (moment(5), moment(9))
    assert (receipt.input_digest, receipt.key, receipt.code_digest) == ("digest", "key", "code")
    assert (receipt.epoch, receipt.trace_id, receipt.agent, receipt.mark) == (3, "trace", "writer", "confirmed")
    assert (receipt.envelope.done, receipt.envelope.next) == ("published", "mail it")
    assert receipt.envelope.artifacts == receipt.artifacts == ("blob:1",)
    assert receipt.hash == row.hash.hex()


def test_a_result_in_the_blob_store_is_read_when_there_is_a_reader() -> None:
    rows = chain([entry(Header("step", "fetch", attempt=1, status="succeeded"), Payload(blob="ab12"))])
    assert next(iter(Attempts("run", "flow", rows))).result is None
    assert next(iter(Attempts("run", "flow", rows, {"ab12": b"[1,2]"}.__getitem__))).result == [1, 2]


def test_a_decision_is_an_event_and_no_receipt() -> None:
    rows = chain([attempt(EFFECT, 1, "started"), decision(EFFECT, 1, "retry"), fact("failed", {"message": "why"})])
    assert [receipt.status for receipt in Attempts("run", "flow", rows)] == ["started"]
    assert [event.name for event in events_of("run", rows)] == ["effect.started", "decision.publish", "run.failed"]


def test_receipts_of_work_that_was_rewound_are_kept() -> None:
    """Receipts are append-only: doing a step again after a rewind adds one and takes none away."""
    done = attempt(STEP, 1, "succeeded", delivered=True)
    rows = chain([done, fact("rewound", {"to": 1}), done])
    assert [receipt.seq for receipt in Attempts("run", "flow", rows)] == [1, 3]
    assert {decode_header(row.header).kind for row in rows} == {"step", "run"}
