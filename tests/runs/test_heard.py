"""What is heard of attempts: where each step succeeded at once, a quick look finds what the careful one does."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.ledger.journal import ENTRY, Flaw, Header, JournalEntry, Payload, Row, entry
from outlast.runs.call import labels
from outlast.runs.heard import Once, Quick, attempts_of, heard_quickly, labels_of
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


def begun(name: str, scope: str, inputs: str, occurrence: int) -> JournalEntry:
    return entry(Header("step", name, scope, inputs, occurrence, 1, "started", started_at=BEGAN))


RECEIPTS = st.lists(st.builds(done, TEXTS, SCOPES, INPUTS, st.sampled_from([0, 1, 12])), max_size=8)


def alike(rows: list[Row]) -> Quick | None:
    """What the quick look finds, which is what the careful one does."""
    quick, every = heard_quickly(rows), attempts_of(rows)
    if quick is not None:
        assert [each.whole for each in quick.heard] == every
        shown = [(each.call, each.label, each.step, each.seq, each.header, each.status) for each in quick.heard]
        assert shown == [(each.call, each.label, each.step, each.seq, each.header, each.status) for each in every]
        assert quick.once_each == (len({each.label for each in every}) == len(every))
    return quick


@given(RECEIPTS, stories(), RECEIPTS)
def test_both_looks_hear_the_same(before: list[JournalEntry], story: Story, after: list[JournalEntry]) -> None:
    told = [JournalEntry(row.header, row.payload) for row in story.rows]
    alike(chain([*before, *told, *after]))
    alike(chain([*before, *after]))


@given(RECEIPTS, stories())
def test_labels_of_some_calls_are_those_that_all_have(receipts: list[JournalEntry], story: Story) -> None:
    rows = chain([*receipts, *(JournalEntry(row.header, row.payload) for row in story.rows), *receipts])
    wanted = labels(rows)
    assert labels_of(rows, wanted) == wanted
    for call, name in wanted.items():
        assert labels_of(rows, [call]) == {call: name}


def test_the_quick_look_is_enough_for_steps_with_starts_retries_effects_and_items() -> None:
    one, two = done("fetch", "", IN1, 0), done("fetch", "", IN2, 0, 5)
    found = alike(chain([fact("started", {}), one, two, fact("succeeded", {})]))
    assert found is not None
    assert [type(each) for each in found.heard] == [Once, Once]
    assert [each.started_at for each in found.heard] == [BEGAN, BEGAN + 5]
    assert found.once_each
    for more in (
        [begun("fetch", "", IN3, 0), done("fetch", "", IN3, 0)],
        [attempt(STEP, 1, "failed"), attempt(STEP, 2, "succeeded", delivered=True)],
        [attempt(EFFECT, 1, "started"), attempt(EFFECT, 1, "succeeded", delivered=True)],
        [done("fetch", "", IN3, 0, seen="3#digest")],
        [done("fetch", "", IN3, 0, agent="writer"), done("fetch", "", "=its id", 0)],
    ):
        assert alike(chain([one, *more, two])) is not None


def test_it_leaves_what_was_begun_anew_or_heard_of_twice_to_the_careful_one() -> None:
    one = done("fetch", "", IN1, 0)
    for odd in (one, fact("rewound", {"to": 2})):
        assert alike(chain([one, odd])) is None


def test_items_of_a_map_keep_their_numbers() -> None:
    rows = chain([done("fetch", "", IN1, 0, seen="3#x"), done("fetch", "", IN2, 0), done("fetch", "", IN3, 0)])
    assert labels_of(rows, labels(rows)) == labels(rows)
    assert [*labels(rows).values()] == ["fetch~3", "fetch", "fetch~2"]


def test_branches_that_only_the_run_tells_apart_share_the_numbers_of_a_step() -> None:
    twice = [done("fetch", "~a:1f/", IN1, 0), done("fetch", "~b:2e/", IN1, 0)]
    rows = chain([*twice, done("b", "a/", IN1, 0), done("a/b", "", IN1, 0)])
    assert alike(rows) is not None
    assert [each.label for each in attempts_of(rows)] == ["fetch", "fetch~2", "a/b", "a/b~2"]


def test_what_is_damaged_is_looked_at_with_care() -> None:
    rows = chain([done("fetch", "", IN1, 0), done("fetch", "", IN2, 0)])
    assert Attempts("run", "flow", rows).once_each
    assert not Attempts("run", "flow", rows, flaws={1: Flaw(ENTRY, "its hash does not match")}).once_each
