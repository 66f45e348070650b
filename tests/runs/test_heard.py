"""What is heard of attempts: where each step succeeded at once, a quick look finds what the careful one does."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.ledger.journal import Header, JournalEntry, Payload, entry
from outlast.runs.call import labels
from outlast.runs.heard import attempts_of, labels_of, once_each
from outlast.runs.receipt import Attempts

from .stories import EFFECT, STEP, Story, attempt, chain, fact, stories

IN1, IN2, IN3 = (letter * 32 for letter in "abc")
BEGAN = 1_790_000_000_000_000
PIECES = st.sampled_from(
    ["a", "b", "~a:1f", ",1,", '"', "succeeded", ',1,"succeeded",true,"","",', "#", "ü", "\\", "/"]
)
TEXTS = st.lists(PIECES, max_size=3).map("".join)


def done(name: str, scope: str, inputs: str, occurrence: int, at: int = 0, **said: str) -> JournalEntry:
    """The receipt of a step that succeeded at once."""
    header = Header("step", name, scope, inputs, occurrence, 1, "succeeded", True, started_at=BEGAN + at, **said)
    return entry(header, Payload(done="done"))


SCOPES = TEXTS.map(lambda text: f"{text}/" if text else "")
INPUTS = st.sampled_from([IN1, IN2, IN3]) | TEXTS.map(lambda text: text + IN1) | TEXTS
RECEIPTS = st.lists(st.builds(done, TEXTS, SCOPES, INPUTS, st.sampled_from([0, 1, 12])), max_size=8)


@given(RECEIPTS, st.sampled_from([[], [fact("started", {})], [attempt(EFFECT, 1, "started")]]))
def test_steps_that_succeeded_at_once_are_heard_of_alike_by_both_looks(
    receipts: list[JournalEntry], before: list[JournalEntry]
) -> None:
    rows = chain([*before, *receipts])
    once, every = once_each(rows), attempts_of(rows)
    assert once is None or [each.whole for each in once] == every
    if once is not None:
        assert [(each.call, each.label, each.step, each.seq, each.header) for each in once] == [
            (each.call, each.label, each.step, each.seq, each.header) for each in every
        ]


@given(RECEIPTS, stories())
def test_labels_of_some_calls_are_those_that_all_have(receipts: list[JournalEntry], story: Story) -> None:
    rows = chain([*receipts, *(JournalEntry(row.header, row.payload) for row in story.rows), *receipts])
    wanted = labels(rows)
    assert labels_of(rows, wanted) == wanted
    for call, name in wanted.items():
        assert labels_of(rows, [call]) == {call: name}


@given(stories())
def test_a_run_in_which_anything_else_happened_is_looked_at_with_care(story: Story) -> None:
    rows = story.rows
    once = once_each(rows)
    assert once is None or [each.whole for each in once] == attempts_of(rows)


def test_the_quick_look_is_for_plain_steps_of_which_each_is_another() -> None:
    one, two = done("fetch", "", IN1, 0), done("fetch", "", IN2, 0, 5)
    found = once_each(chain([fact("started", {}), one, two, fact("succeeded", {})]))
    assert found is not None
    assert [each.label for each in found] == ["fetch", "fetch~2"]
    assert [each.started_at for each in found] == [BEGAN, BEGAN + 5]
    for odd in (
        one,  # the same call again
        attempt(STEP, 1, "failed", delivered=True),
        attempt(STEP, 2, "succeeded", delivered=True),
        attempt(EFFECT, 1, "succeeded", delivered=True),
        fact("rewound", {"to": 2}),
        done("fetch", "", IN3, 0, seen="3#digest"),  # an item of a map
        done("fetch", "", IN3, 0, agent="writer"),
        done("fetch", "", "=its id", 0),
    ):
        assert once_each(chain([one, odd])) is None


def test_items_of_a_map_keep_their_numbers() -> None:
    rows = chain([done("fetch", "", IN1, 0, seen="3#x"), done("fetch", "", IN2, 0), done("fetch", "", IN3, 0)])
    assert labels_of(rows, labels(rows)) == labels(rows)
    assert [*labels(rows).values()] == ["fetch~3", "fetch", "fetch~2"]


def test_branches_that_only_the_run_tells_apart_share_the_numbers_of_a_step() -> None:
    twice = [done("fetch", "~a:1f/", IN1, 0), done("fetch", "~b:2e/", IN1, 0)]
    rows = chain([*twice, done("b", "a/", IN1, 0), done("a/b", "", IN1, 0)])
    assert [each.label for each in once_each(rows) or ()] == ["fetch", "fetch~2", "a/b", "a/b~2"]
    assert [each.label for each in attempts_of(rows)] == ["fetch", "fetch~2", "a/b", "a/b~2"]


def test_what_is_damaged_is_looked_at_with_care() -> None:
    rows = chain([done("fetch", "", IN1, 0), done("fetch", "", IN2, 0)])
    assert Attempts("run", "flow", rows).once_each
    assert not Attempts("run", "flow", rows, names={each.call: each.label for each in attempts_of(rows)}).once_each
